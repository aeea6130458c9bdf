"""The files of the image: a folder for each layer, made of Debian's packages, locked packages and vcsync."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from hack.image import debian
from hack.image.oci import Owner

USER = 65532
"""Uid and gid of containers."""
HOME = "opt/vcsync"
SITE = f"{HOME}/lib/python{debian.PYTHON}/site-packages"
DATA = "var/lib/vcsync"
OWNERS = {DATA: Owner(USER, 0o700), "tmp": Owner(0, 0o1777)}
INTERPRETER = f"/usr/bin/python{debian.PYTHON}"
TRIPLES = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
"""Architecture as Debian and Go name it -> the folder of its libraries."""
LOADERS = {"amd64": "usr/lib64/ld-linux-x86-64.so.2", "arm64": "usr/lib/ld-linux-aarch64.so.1"}
PLATFORMS = {"amd64": "x86_64", "arm64": "aarch64"}
LIBC = 28
"""Minor version of the libc that packages may need at most; the suite has a later one."""
ACCOUNTS = {
    "etc/passwd": f"root:x:0:0:root:/root:/sbin/nologin\nvcsync:x:{USER}:{USER}:vcsync:/{DATA}:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nvcsync:x:{USER}:\n",
}
BUNDLE = "etc/ssl/certs/ca-certificates.crt"
LAUNCHER = f"""\
#!/{HOME}/bin/python
import sys
from vcsync.cli.command.main import main
sys.exit(main())
"""
ENVIRONMENT = {
    "PATH": f"/{HOME}/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "SSL_CERT_FILE": f"/{BUNDLE}",
}
SECONDS = 1200.0


class BuildError(Exception):
    """A step of the build failed; the message says why."""


def base(root: Path, packages: Iterable[debian.Package], architecture: str) -> None:
    """Write the files of Debian's packages, with compiled modules of Python.

    Args:
        root: folder, which is emptied.
        packages: of Debian.
        architecture: as Debian names it.
    """
    shutil.rmtree(root, ignore_errors=True)
    for name in debian.MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in packages:
        for entry, content in debian.files(package):
            path = root / entry.name
            if entry.isdir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if entry.issym():
                path.symlink_to(entry.linkname)
            elif entry.islnk():
                shutil.copy2(root / entry.linkname, path)
            elif entry.isreg():
                path.write_bytes(content)
                path.chmod(0o755 if entry.mode & 0o100 else 0o644)
        # Scanners of images without dpkg read these files.
        _write(root, f"var/lib/dpkg/status.d/{package.name}", package.control)
    for name, text in ACCOUNTS.items():
        _write(root, name, text)
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    _write(root, BUNDLE, "".join(each.read_text() for each in certificates))
    (root / "tmp").mkdir(exist_ok=True)
    compile_modules(root, root, f"usr/lib/python{debian.PYTHON}", architecture)


def packages_of_python(root: Path, below: Path, lock: Path, architecture: str) -> None:
    """Install the locked packages into a virtual environment of the image.

    Args:
        root: folder of the layer, which is emptied.
        below: folder of the layer with Python.
        lock: requirements with hashes.
        architecture: as Debian names it.

    Raises:
        BuildError: pip failed.
    """
    shutil.rmtree(root, ignore_errors=True)
    (root / SITE).mkdir(parents=True)
    wheels = [f"--platform=manylinux_2_{minor}_{PLATFORMS[architecture]}" for minor in range(LIBC, 4, -1)]
    target = ("--target", str(root / SITE), "--only-binary=:all:", "--no-deps", "--no-compile")
    version = ("--implementation=cp", f"--python-version={debian.PYTHON}")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
    manylinux = (f"--platform=manylinux2014_{PLATFORMS[architecture]}",)
    _run([*pip, *target, *version, *wheels, *manylinux, "--require-hashes", "--requirement", str(lock)])
    shutil.rmtree(root / SITE / "bin", ignore_errors=True)
    for record in (root / SITE).glob("*.dist-info/*"):
        # Pip writes here what it did, which depends on the machine; nothing in the image reads it.
        if record.name in ("RECORD", "direct_url.json", "REQUESTED"):
            record.unlink()
    _write(
        root,
        f"{HOME}/pyvenv.cfg",
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {debian.PYTHON}\n",
    )
    (root / HOME / "bin").mkdir()
    (root / HOME / "bin" / "python").symlink_to(INTERPRETER)
    compile_modules(below, root, SITE, architecture)


def program(root: Path, below: Path, checkout: Path, architecture: str) -> None:
    """Write vcsync's own files.

    Args:
        root: folder of the layer, which is emptied.
        below: folder of the layer with Python.
        checkout: which contains vcsync.
        architecture: as Debian names it.
    """
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(
        checkout / "vcsync", root / SITE / "vcsync", ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
    )
    _write(root, f"{HOME}/LICENSE", (checkout / "LICENSE").read_text())
    _write(root, f"{HOME}/bin/vcsync", LAUNCHER)
    (root / HOME / "bin" / "vcsync").chmod(0o755)
    (root / DATA).mkdir(parents=True)
    compile_modules(below, root, f"{SITE}/vcsync", architecture)


def compile_modules(below: Path, root: Path, folder: str, architecture: str) -> None:
    """Compile modules with the image's Python, so that containers with a read-only root start fast.

    The result does not depend on times and on the folder of the build.

    Args:
        below: folder of the layer with Python.
        root: folder of the layer with the modules.
        folder: of the modules in the image.
        architecture: of the image, which must be this machine's.

    Raises:
        BuildError: Python failed.
    """
    libraries = below / "usr/lib" / TRIPLES[architecture]
    python = [str(below / LOADERS[architecture]), "--library-path", str(libraries), f"{below}{INTERPRETER}"]
    options = ["-q", "-f", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/"]
    environment = {"PYTHONHOME": str(below / "usr"), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    _run([*python, "-S", "-W", "ignore", "-m", "compileall", *options, str(root / folder)], environment)


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        env=environment or dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command[:6])} ...: {(done.stderr or done.stdout).strip()}")


def _write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
