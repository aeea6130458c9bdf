"""`vcsync brake`."""
