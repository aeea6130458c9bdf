"""The official Kubernetes end-to-end tests, run against a tenant's control plane."""
