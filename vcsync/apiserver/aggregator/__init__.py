"""Forwards requests for aggregated APIs of a tenant to the tenant's Services, and checks whether these are available."""
