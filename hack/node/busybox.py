"""A statically linked busybox: the machine's, else the one of Debian's package, kept in a cache folder."""

import shutil
import subprocess
from pathlib import Path

PACKAGE = "busybox-static"
SECONDS = 120.0


class NoBusyboxError(Exception):
    """There is no statically linked busybox; the message says how to get one."""


def find(cache: Path) -> Path:
    """Return the path of a statically linked busybox.

    Args:
        cache: folder in which to keep one from Debian's package.

    Raises:
        NoBusyboxError: the machine has none, and the package cannot be downloaded.
    """
    found = shutil.which("busybox")
    if found and is_static(Path(found)):
        return Path(found)
    kept = cache / "busybox"
    if not kept.exists():
        _download(cache, kept)
    return kept


def is_static(program: Path) -> bool:
    """Return whether an ELF program names no dynamic linker, which it does near its beginning."""
    with program.open("rb") as file:
        return b"/ld-" not in file.read(4096)


def _download(cache: Path, kept: Path) -> None:
    # This does not install it: neither root nor a change of the machine is necessary.
    unpacked = cache / "unpacked"
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir(parents=True)
    try:
        _run(["apt-get", "download", PACKAGE], cache)
        [package] = cache.glob("*.deb")
        _run(["dpkg-deb", "--extract", str(package), str(unpacked)], cache)
        (unpacked / "bin" / "busybox").rename(kept)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or error
        raise NoBusyboxError(
            f"no statically linked busybox on PATH, and Debian's package {PACKAGE} cannot be downloaded: install it "
            f"(`apt-get update && apt-get install {PACKAGE}`): {str(output).strip()}"
        ) from error
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=SECONDS)
