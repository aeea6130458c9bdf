"""The `vcsync` command: installs, registers clusters and tenants, runs the roles, and reports their state."""
