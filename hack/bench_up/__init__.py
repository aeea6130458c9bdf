"""Measures `vcsync up`: Pods of many tenants through the whole chain, what idle tenants cost, and a quiet one's wait."""
