"""Serves the Kubernetes API to many tenants in one process, over one store."""
