"""The same requests to kube-apiserver and to the embedded control plane, answers compared field by field."""
