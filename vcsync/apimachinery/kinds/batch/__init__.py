"""The kinds of the API group `batch`, one file per kind."""
