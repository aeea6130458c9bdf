"""`vcsync explain`."""
