"""A copy of the checkout as it stands, without what git ignores."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def copy(folder: Path, appended: Mapping[str, str] | None = None) -> None:
    """Bring a folder up to date with the files that git tracks; files that are equal keep their times.

    Args:
        folder: where the copy is; other files in it stay.
        appended: text that is added to the end of a file in the copy, by the file's name.
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
