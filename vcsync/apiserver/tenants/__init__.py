"""The tenants of a control plane: their records, keys and certificate authorities."""
