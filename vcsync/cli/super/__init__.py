"""`vcsync super`: the super clusters of the pool."""
