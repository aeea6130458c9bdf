"""Debian's packages in the image: their names, their download by apt, and their files."""

import hashlib
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

SUITE = "trixie"
PYTHON = "3.13"
"""Python's version in that suite."""
OPERATING_SYSTEM = Path("/etc/os-release")
PACKAGES = (
    "base-files",
    "ca-certificates",
    "libbz2-1.0",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    f"libpython{PYTHON}-minimal",
    f"libpython{PYTHON}-stdlib",
    "libssl3t64",
    "libstdc++6",
    "libuuid1",
    "libzstd1",
    f"python{PYTHON}-minimal",
    "tzdata",
    "zlib1g",
)
"""All of the image: Python, the libraries that it and the locked packages load, certificates and time zones; no shell."""
DROPPED = ("usr/share/man/", "usr/share/locale/", "usr/share/lintian/", "usr/share/bug/", "usr/share/i18n/")
"""Folders of packages that are left out."""
DOCUMENTS = "usr/share/doc/"
"""Folder of which only files of copyright stay."""
GCONV = "/gconv/"
"""Part of paths of libc's encodings, which Python does not use."""
MERGED = ("bin", "lib", "lib64", "sbin")
"""Folders that are links to those of the same name in usr/."""
SECONDS = 300.0

CODENAME = re.compile(r"^VERSION_CODENAME=\"?([a-z]+)\"?$", re.MULTILINE)
APT = Path("/etc/apt")
CONFIGURATION = """\
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "{folder}/sources";
Dir::State "{folder}";
Dir::State::Lists "{folder}/lists";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Sandbox::User "root";
Acquire::Languages "none";
"""


class DebianError(Exception):
    """A package cannot be downloaded; the message says why."""


@dataclass(frozen=True)
class Package:
    """A downloaded package."""

    name: str
    version: str
    architecture: str
    sha256: str
    path: Path
    control: str
    """The text of its control file."""


def download(folder: Path, architecture: str) -> list[Package]:
    """Return the packages of the image, sorted by name, after the download of those that the folder lacks.

    apt checks signatures and checksums. It works in the folder, with the archives that the machine uses for its own packages, and
    changes nothing of the machine.

    Args:
        folder: of the packages.
        architecture: as Debian names it.

    Raises:
        DebianError: the machine has no archive of Debian, or apt failed.
    """
    found = sorted(map(_read, folder.glob("*.deb")), key=lambda each: each.name) if folder.is_dir() else []
    if [each.name for each in found] == sorted(PACKAGES):
        return found
    state = folder / "apt"
    for each in ("sources", "lists/partial", "cache/archives/partial"):
        (state / each).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    for name, text in _sources().items():
        (state / "sources" / name).write_text(text)
    configuration = state / "apt.conf"
    configuration.write_text(CONFIGURATION.format(folder=state, architecture=architecture))
    for old in folder.glob("*.deb"):
        old.unlink()
    _apt(configuration, folder, "update")
    _apt(configuration, folder, "download", *PACKAGES)
    return sorted(map(_read, folder.glob("*.deb")), key=lambda each: each.name)


def of_suite(text: str, release: str) -> str:
    """Return sources of the machine's release as those of the image's; empty if they have nothing of Debian.

    Args:
        text: of a file of sources, in either of apt's forms.
        release: text of the machine's `/etc/os-release`.
    """
    found = CODENAME.search(release)
    if found is None or "ID=debian" not in release.splitlines():
        return ""
    suite = re.compile(rf"\b{found[1]}\b")
    return suite.sub(SUITE, text) if suite.search(text) else ""


def _sources() -> dict[str, str]:
    """Return the sources of the image's packages by the names of their files.

    Raises:
        DebianError: there are none.
    """
    release = OPERATING_SYSTEM.read_text()
    given = [APT / "sources.list", *sorted((APT / "sources.list.d").glob("*.sources"))]
    given += sorted((APT / "sources.list.d").glob("*.list"))
    found = {file.name: of_suite(file.read_text(), release) for file in given if file.is_file()}
    found = {name: text for name, text in found.items() if text}
    if not found:
        raise DebianError(
            f"{APT} names no archive of Debian: build the image on Debian, or by the Containerfile"
        )
    return found


def files(package: Package) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """Yield the entries of a package that the image keeps, with merged folders, and the contents of files."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package.path)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as process,
        tarfile.open(fileobj=process.stdout, mode="r|") as archive,
    ):
        for entry in archive:
            name = entry.name.removeprefix("./").rstrip("/")
            # The links of merged folders are there already.
            if not name or name in MERGED or not is_kept(name := merged(name)):
                continue
            entry.name = name
            if entry.islnk():
                entry.linkname = merged(entry.linkname.removeprefix("./"))
            content = archive.extractfile(entry) if entry.isreg() else None
            yield entry, content.read() if content else b""


def component(package: Package) -> dict[str, Any]:
    """Return a package as a component of a bill of materials (CycloneDX)."""
    arguments = f"arch={package.architecture}&distro={SUITE}"
    reference = f"pkg:deb/debian/{quote(package.name)}@{quote(package.version)}?{arguments}"
    return {
        "type": "library",
        "name": package.name,
        "version": package.version,
        "purl": reference,
        "bom-ref": reference,
        "hashes": [{"alg": "SHA-256", "content": package.sha256}],
    }


def merged(name: str) -> str:
    """Return the path in usr/ of a file whose folder is a link to it."""
    top, slash, rest = name.partition("/")
    return f"usr/{top}{slash}{rest}" if top in MERGED else name


def is_kept(name: str) -> bool:
    """Return whether the image has a file of a package."""
    path = f"{name}/"
    if path.startswith(DOCUMENTS):
        # The folder, one for each package, and in it one file.
        return path.count("/") <= DOCUMENTS.count("/") + 1 or name.endswith("/copyright")
    return not path.startswith(DROPPED) and GCONV not in path


def _read(path: Path) -> Package:
    control = subprocess.run(
        ["dpkg-deb", "--field", str(path)], check=True, capture_output=True, text=True, timeout=SECONDS
    ).stdout
    fields = dict(line.split(": ", 1) for line in control.splitlines() if ": " in line and line[0] != " ")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Package(fields["Package"], fields["Version"], fields["Architecture"], digest, path, control)


def _apt(configuration: Path, folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        ["apt-get", "--quiet=2", *arguments],
        cwd=folder,
        env={**os.environ, "APT_CONFIG": str(configuration)},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if done.returncode != 0:
        raise DebianError(f"apt-get {' '.join(arguments)}: {done.stderr.strip()}")
