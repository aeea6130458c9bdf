"""Measures the cost of vcsync: the same load through a tenant and directly in a Kubernetes cluster, in one run."""
