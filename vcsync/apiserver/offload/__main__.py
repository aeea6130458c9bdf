"""`python -m vcsync.apiserver.offload DESCRIPTOR`: entry point of the offload process. The control plane starts it."""

import sys

from vcsync.apiserver.offload.worker import main

if __name__ == "__main__":
    main(int(sys.argv[1]))
