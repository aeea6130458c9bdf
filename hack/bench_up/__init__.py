"""Measures `vcsync up`: Pods of many tenants, the cost of idle tenants, and the latency of a quiet tenant."""
