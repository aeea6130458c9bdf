"""Entry point of the offload process: `python -m vcsync.apiserver.offload DESCRIPTOR STALL_SECONDS [FOLDER]`.

The control plane starts it.
"""

import sys
from pathlib import Path

from vcsync.apiserver.offload.worker import main

if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]) if sys.argv[3:] else None)
