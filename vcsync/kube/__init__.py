"""Talking to any Kubernetes API: connection, requests, watch, reflector, cache, and small pure helpers."""
