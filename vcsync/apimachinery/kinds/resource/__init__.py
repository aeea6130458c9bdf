"""The kinds of the API group `resource.k8s.io`, one file per kind."""
