"""Networks of tenants, and their DNS Services."""
