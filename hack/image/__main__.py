"""`python -m hack.image`: builds the image of the checkout as an OCI layout, an archive, and a bill of materials."""

import argparse
import os
import platform
import subprocess
from pathlib import Path

from hack.checkout import ROOT
from hack.image import build

DEFAULT = ROOT / "dist" / "image"


def main() -> None:
    """Run from the command line; print the digest."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--output", type=Path, default=DEFAULT, help=f"folder of the result (default: {DEFAULT})"
    )
    parser.add_argument("--name", default=build.NAME, help=f"full name with tag (default: {build.NAME})")
    parser.add_argument("--update", action="store_true", help="download Debian's packages again")
    options = parser.parse_args()
    machine = platform.machine()
    built = build.build(
        options.output,
        name=options.name,
        epoch=epoch(),
        architecture=build.ARCHITECTURES.get(machine, machine),
        update=options.update,
        progress=print,
    )
    print(f"{built.archive}\n{built.sbom}\n{options.name}@{built.digest}")


def epoch() -> int:
    """Return SOURCE_DATE_EPOCH, else the time of the last commit, in seconds since 1970."""
    if said := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(said)
    command = ["git", "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
