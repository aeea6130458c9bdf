"""`vcsync usage`: what tenants used of an embedded control plane, and what it costs."""
