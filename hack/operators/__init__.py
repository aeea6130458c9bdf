"""Operators' own test suites on a kube-apiserver and on a tenant of an embedded control plane, compared case by case."""
