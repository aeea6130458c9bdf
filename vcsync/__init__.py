"""vcsync: tenants with Kubernetes control planes of their own on a pool of super clusters."""

__version__ = "0.1.0"
