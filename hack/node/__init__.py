"""One real node in namespaces of its own: kubelet, containerd and containers, which end with a single process."""
