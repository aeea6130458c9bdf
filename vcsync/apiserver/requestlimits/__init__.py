"""Limits of the requests of each tenant and of each of its users: rates, concurrent requests, watches and bytes."""
