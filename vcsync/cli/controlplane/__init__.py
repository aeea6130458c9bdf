"""`vcsync run controlplane`, `vcsync backup` and `vcsync restore`."""
