"""The kinds of the API group `networking.k8s.io`, one file per kind."""
