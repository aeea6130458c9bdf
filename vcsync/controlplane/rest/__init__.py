"""The Kubernetes API of many tenants over HTTP: requests, the generic registry, reading, watching."""
