"""Our API: wire names, object types, CRDs and the RBAC each role needs. Pure values, no I/O."""
