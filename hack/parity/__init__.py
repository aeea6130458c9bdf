"""Sends the same requests to kube-apiserver and to the embedded control plane and compares the answers by field."""
