"""Fuzzes the embedded control plane: hostile requests to one tenant must hurt neither the server nor another."""
