"""The controllers of embedded control planes: those of kube-controller-manager, for all tenants in one process."""
