"""The HTTP server: listeners, TLS, connections, bodies, streams, and in-process requests."""
