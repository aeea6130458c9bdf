"""Archives of tenants: all objects of a control plane in one file, and their return from it."""
