"""The operator's actions on tenants: create, rotate, sign for, export and delete them."""
