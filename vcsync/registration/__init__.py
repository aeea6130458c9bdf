"""Registration of tenants and super clusters in the pool: identity, records, accounts, credentials."""
