"""The kinds of the API group `apiextensions.k8s.io`, one file per kind."""
