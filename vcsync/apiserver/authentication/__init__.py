"""Authentication: from the credentials of a request to its caller."""
