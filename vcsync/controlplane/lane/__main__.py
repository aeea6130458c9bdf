"""`python -m vcsync.controlplane.lane DESCRIPTOR`: the other process of a control plane, which starts it."""

import sys

from vcsync.controlplane.lane.worker import main

if __name__ == "__main__":
    main(int(sys.argv[1]))
