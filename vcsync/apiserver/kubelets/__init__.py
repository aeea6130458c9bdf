"""The way to kubelets: logs, exec, attach and port-forward of Pods, where the operator allows it."""
