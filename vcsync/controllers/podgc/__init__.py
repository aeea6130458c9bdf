"""Deletes Pods that no kubelet or owner will end."""
