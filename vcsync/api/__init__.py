"""vcsync's own API: wire names, object types, CRDs and the RBAC of each role. Pure values, no I/O."""
