"""Runs the `vcsync` command as `python -m vcsync`."""

import sys

from vcsync.cli.command.main import main

if __name__ == "__main__":
    sys.exit(main())
