"""Grants: permissions of a tenant's users in another tenant."""
