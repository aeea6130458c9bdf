"""The way out of the process: HTTPS calls to destinations that a tenant (not trusted) or the operator (trusted) chose."""
