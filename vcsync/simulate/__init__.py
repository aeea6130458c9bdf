"""Hollow super clusters: simulated nodes, kubelets and node scheduler, over the plain Kubernetes API of any cluster."""
