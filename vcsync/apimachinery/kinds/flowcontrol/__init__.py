"""The kinds of the API group `flowcontrol.apiserver.k8s.io`, one file per kind."""
