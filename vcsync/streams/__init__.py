"""Requests for logs and streams of Pods to the API servers of super clusters, for control planes and for the syncer."""
