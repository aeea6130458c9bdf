"""Endpoints and EndpointSlices of Services."""
