"""The kinds of the API group `apiregistration.k8s.io`, one file per kind."""
