"""The `vcsync` command: installs, registers clusters and tenants, runs the roles, tells what goes on."""
