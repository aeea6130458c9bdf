"""Argo Rollouts' own end-to-end tests: an operator with real workloads, against a tenant of `vcsync up`."""
