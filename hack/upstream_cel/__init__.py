"""Sends the expressions of Kubernetes' and cel-go's own tests to kube-apiserver and to the embedded control plane.

Both must accept the same ones with the same types, refuse the others with the same messages, and compute the same values.
The expressions are read from the cache of Go modules; none of them is in this repository.
"""
