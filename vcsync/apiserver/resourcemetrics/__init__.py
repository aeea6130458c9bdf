"""The resource metrics API (`metrics.k8s.io`): usage of a tenant's Pods and nodes, as the super clusters measure it."""
