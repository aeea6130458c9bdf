"""Builds the image: makes its layers, of which those without vcsync's own files stay in the cache, and writes it."""

import datetime
import fcntl
import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hack import bill_of_materials
from hack.checkout import ROOT
from hack.image import debian, oci, rootfs
from hack.testbed.binaries import cache_root
from vcsync import __version__

NAME = f"docker.io/library/vcsync:{__version__}"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Architecture as the machine names it -> as Debian and Go name it."""
LOCK = ROOT / "requirements.lock"
SOURCES = ("debian.py", "rootfs.py", "oci.py")
"""Files beside this one on which cached layers depend."""
CONFIG = {
    "User": f"{rootfs.USER}:{rootfs.USER}",
    "Env": [f"{name}={value}" for name, value in rootfs.ENVIRONMENT.items()],
    "Entrypoint": ["vcsync"],
    "Cmd": ["up", "--data", f"/{rootfs.DATA}", "--listen", "0.0.0.0:6443", "--status", "0.0.0.0:10550"],
    "ExposedPorts": {"6443/tcp": {}, "10550/tcp": {}},
    "WorkingDir": f"/{rootfs.DATA}",
    "Labels": {
        "org.opencontainers.image.title": "vcsync",
        "org.opencontainers.image.version": __version__,
        "org.opencontainers.image.licenses": "Apache-2.0",
    },
}
"""Configuration of the image's containers, as in Containerfile."""


@dataclass(frozen=True)
class Built:
    """The files of a built image."""

    archive: Path
    layout: Path
    sbom: Path
    digest: str
    """Digest of its manifest."""


def build(
    folder: Path,
    *,
    epoch: int,
    architecture: str,
    name: str = NAME,
    update: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Built:
    """Build the image of the checkout.

    The digest follows from the checkout, the locked packages, the downloaded packages of Debian and the arguments.

    Args:
        folder: of the result.
        epoch: time of all files and of the image, in seconds since 1970.
        architecture: as Debian names it; must be this machine's.
        name: full name with tag.
        update: whether to download Debian's packages again.
        progress: called with lines of progress.

    Raises:
        DebianError: Debian's packages cannot be downloaded.
        BuildError: a step failed.
    """
    cache = cache_root().parent / "image" / architecture
    if update:
        shutil.rmtree(cache / "debian", ignore_errors=True)
    (cache / "debian").mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        # A concurrent build waits, and finds the layers.
        fcntl.flock(lock, fcntl.LOCK_EX)
        progress("packages of Debian")
        packages = debian.download(cache / "debian", architecture)
        below = cache / _key(packages)
        if not (below / "done").exists():
            shutil.rmtree(below, ignore_errors=True)
            progress("layer of Debian's packages")
            rootfs.base(below / "base", packages, architecture)
            progress("layer of Python's packages")
            rootfs.packages_of_python(below / "python", below / "base", LOCK, architecture)
            (below / "done").touch()
    progress("layer of vcsync")
    own = folder / "rootfs"
    rootfs.program(own, below / "base", ROOT, architecture)
    roots = (below / "base", below / "python", own)
    layers = [oci.layer(each, epoch, rootfs.OWNERS) for each in roots]
    shutil.rmtree(own)
    created = datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    contents, index, digest = oci.blobs(layers, CONFIG, name, created, architecture)
    made = Built(folder / "vcsync.tar", folder / "oci", folder / bill_of_materials.FILE, digest)
    shutil.rmtree(made.layout, ignore_errors=True)
    oci.write_layout(made.layout, contents, index)
    oci.write_archive(made.archive, contents, index)
    components = [bill_of_materials.of_python(*each) for each in bill_of_materials.locked(LOCK.read_text())]
    components += [debian.component(each) for each in packages]
    made.sbom.write_text(bill_of_materials.document(__version__, components, created))
    return made


def _key(packages: list[debian.Package]) -> str:
    """Return the name of the folder of the cached layers, which changes with everything that they are made of."""
    digest = hashlib.sha256(LOCK.read_bytes())
    for package in packages:
        digest.update(package.sha256.encode())
    for source in SOURCES:
        digest.update((Path(__file__).parent / source).read_bytes())
    return digest.hexdigest()[:16]
