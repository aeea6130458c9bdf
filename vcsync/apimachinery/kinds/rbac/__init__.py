"""The kinds of the API group `rbac.authorization.k8s.io`, one file per kind."""
