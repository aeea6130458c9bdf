"""A client of Kubernetes API servers: connections, requests, watches, reflectors, caches, leases and events."""
