"""`vcsync snapshot` and `vcsync what-if`: the state of the pool in a file, and answers about changes of it."""
