"""The resource metrics API (`metrics.k8s.io`), for control planes and for the syncer: names, discovery, documents. Pure."""
