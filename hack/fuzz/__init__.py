"""Fuzzes the embedded control plane: hostile requests of a tenant must harm neither the server nor other tenants."""
