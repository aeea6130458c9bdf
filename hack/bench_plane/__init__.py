"""Measures the cost of requests at the embedded control plane and at kube-apiserver with etcd, in one run."""
