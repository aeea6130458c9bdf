"""Kubernetes' scripts with the tests of kubectl, and a copy of them that can be run.

The scripts come from Go's module cache, which is read-only; the tests create files beside them. Nothing of them is copied
into the repository.
"""

import re
import shutil
from pathlib import Path

SCRIPT = Path("test/cmd/legacy-script.sh")
FOLDERS = (
    "hack/lib",
    "hack/testdata",
    "test/cmd",
    "test/e2e/testing-manifests",
    "test/fixtures",
    "third_party/forked/shell2junit",
)
"""Files and folders that the scripts read, relative to Kubernetes' module."""
SHEBANG = b"#!"
"""Start of the files that are programs. The module cache does not keep file modes."""
_GROUP = re.compile(r"^ +record_command run_(\w+)", re.MULTILINE)


def groups(script: str) -> tuple[str, ...]:
    """Return the names of the test functions that `legacy-script.sh` calls, without `run_`, in order."""
    return tuple(dict.fromkeys(_GROUP.findall(script)))


def copy(module: Path, root: Path, kubectl: Path) -> None:
    """Create a folder in which the scripts run.

    Args:
        module: folder of `k8s.io/kubernetes` in the module cache.
        root: the new folder.
        kubectl: the program to test.
    """
    for each in FOLDERS:
        shutil.copytree(module / each, root / each, copy_function=shutil.copyfile)
    for folder in (root, *(each for each in root.rglob("*") if each.is_dir())):
        folder.chmod(0o755)
    for file in root.rglob("*"):
        if file.is_file() and file.read_bytes().startswith(SHEBANG):
            file.chmod(0o755)
    programs = root / "_output" / "bin"
    programs.mkdir(parents=True)
    (programs / "kubectl").symlink_to(kubectl)
