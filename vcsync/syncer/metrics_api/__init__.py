"""The resource metrics API of tenants with a control plane of their own: kube-apiserver forwards requests to a syncer."""
