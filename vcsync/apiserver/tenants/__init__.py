"""Which tenants exist: their records, keys and certificate authorities."""
