"""`vcsync tenant`: tenants and their control planes."""
