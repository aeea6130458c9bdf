"""The kinds of the API group `autoscaling`, one file per kind."""
