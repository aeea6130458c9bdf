"""kubectl's own end-to-end tests (`test/cmd` of Kubernetes), run against a tenant of an embedded control plane."""
