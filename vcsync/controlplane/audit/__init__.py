"""The audit log: who did what in a tenant, in Kubernetes' own format."""
