"""The resources of a tenant, and the discovery documents that list them."""
