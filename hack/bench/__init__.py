"""Measures what vcsync adds to a Kubernetes cluster: the same load through a tenant and directly, in one run."""
