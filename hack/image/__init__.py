"""The image of all roles without a container builder: an OCI layout of Debian's Python, locked packages and vcsync."""
