"""The syncer: materialises in one super cluster what its tenants placed there, and brings status back."""
