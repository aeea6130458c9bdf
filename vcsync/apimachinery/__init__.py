"""The semantics of a Kubernetes API, independent of any server, storage or request. Pure."""
