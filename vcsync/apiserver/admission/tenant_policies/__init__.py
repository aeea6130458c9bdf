"""TenantPolicies: the operator's rules for the writes of tenants. No object of a tenant can change them."""
