"""Tenants with embedded control planes: their credentials, what they begin with, and how they come and go."""
