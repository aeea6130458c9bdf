"""`vcsync demo`."""
