"""The kinds of the API group `events.k8s.io`, one file per kind."""
