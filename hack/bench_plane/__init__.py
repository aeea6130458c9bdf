"""What requests cost at the embedded control plane and at kube-apiserver with etcd, in one run."""
