"""The kinds of the API group `certificates.k8s.io`, one file per kind."""
