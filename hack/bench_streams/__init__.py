"""Throughput, latency and CPU of logs, exec and port-forward through a tenant's API, beside the super cluster's own."""
