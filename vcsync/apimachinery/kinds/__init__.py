"""The declarations of the built-in kinds: one folder per API group, one file per kind."""
