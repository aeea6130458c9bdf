"""`vcsync run`: the long-running roles."""
