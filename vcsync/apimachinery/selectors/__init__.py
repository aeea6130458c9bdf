"""Label and field selectors of requests: parsing and matching."""
