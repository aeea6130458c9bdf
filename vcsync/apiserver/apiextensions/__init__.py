"""Custom resources per tenant: the catalogue, conversion, and the controller of definitions."""
