"""Forwards the requests of external tenants to their own API servers, as the users that were authenticated here."""
