"""`vcsync up` and `vcsync setup`: the whole system."""
