"""What writes must pass beyond their kind's own rules: defaults of the tenant, quotas, references that must exist."""
