"""Mutation testing: small faults put into a room's code, one at a time, which its own unit tests must notice."""
