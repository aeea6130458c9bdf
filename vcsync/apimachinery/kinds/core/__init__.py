"""The kinds of the core API group, one file per kind."""
