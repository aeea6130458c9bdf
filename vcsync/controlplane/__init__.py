"""The embedded control plane: a Kubernetes API for each of many tenants in one process, over one store."""
