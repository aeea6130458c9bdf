"""`python -m hack.attacks`: the latencies of a quiet tenant while another one attacks."""

import argparse
import re
import sys

from hack.attacks import exhaustion, quiet


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m hack.attacks", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each attack (default 3)")
    parser.add_argument("--only", default="", metavar="REGEX", help="attacks by name (default all)")
    parser.add_argument(
        "--request",
        action="append",
        choices=quiet.REQUESTS,
        help="what the quiet tenant does (default all, in turns)",
    )
    options = parser.parse_args()
    names = [name for name in exhaustion.ATTACKS if re.search(options.only, name)]
    kinds = options.request or quiet.REQUESTS
    print(quiet.summary(quiet.run(options.seconds, names, kinds), kinds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
