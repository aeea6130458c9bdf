"""The syncer: copies tenants' objects down to one super cluster, and status, bindings, nodes and Events up to tenants."""
