"""Who asks, and whether they may: credentials, RBAC, access reviews, ServiceAccount tokens."""
