"""`vcsync drift`: changes that were made in super clusters only, and repaired."""
