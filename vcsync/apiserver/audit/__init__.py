"""The audit log of tenants in Kubernetes' format."""
