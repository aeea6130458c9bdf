"""`vcsync status`."""
