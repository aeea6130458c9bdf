"""The kinds of the API group `storage.k8s.io`, one file per kind."""
