"""What makes an embedded control plane live: the controllers of kube-controller-manager, for all tenants in one process."""
