"""`kubectl vcsync`."""
