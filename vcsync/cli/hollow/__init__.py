"""`vcsync run hollow` and `vcsync hollow`: simulated super clusters."""
