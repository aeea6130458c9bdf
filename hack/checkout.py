"""A copy of the checkout in its current state, without files that git ignores."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def copy(folder: Path, appended: Mapping[str, str] | None = None) -> None:
    """Update a folder from the files that git tracks; equal files keep their times.

    Args:
        folder: of the copy; other files in it stay.
        appended: file name -> text to add to the end of that file in the copy.
    """
    extra = appended or {}
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, target = ROOT / name, folder / name
        if not source.is_file():
            target.unlink(missing_ok=True)
            continue
        content = source.read_bytes() + extra.get(name, "").encode()
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(source.stat().st_mode)
