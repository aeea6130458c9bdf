"""Hollow super clusters: nodes, kubelets and a node scheduler that pretend, over the plain Kubernetes API of any cluster."""
