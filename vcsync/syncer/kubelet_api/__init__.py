"""The kubelet API of virtual nodes: logs, exec, attach and port-forward for tenants with a kube-apiserver of their own."""
