"""`vcsync run controllers`."""
