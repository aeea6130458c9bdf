"""The kinds of the API group `apps`, one file per kind."""
