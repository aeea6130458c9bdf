"""The kinds of the API group `node.k8s.io`, one file per kind."""
