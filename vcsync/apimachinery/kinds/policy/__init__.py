"""The kinds of the API group `policy`, one file per kind."""
