"""Priority and fairness: which requests are served now, which wait and which are refused, between tenants and within."""
