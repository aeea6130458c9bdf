"""The kinds of the API group `discovery.k8s.io`, one file per kind."""
