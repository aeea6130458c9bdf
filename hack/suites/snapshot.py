"""The checkout as a tree of git: its hash, and a clone of it in which tests run while the checkout changes."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from hack.checkout import ROOT


def tree(root: Path = ROOT) -> str:
    """Return git's hash of the checkout as it is, with changes that are not committed and files that are new."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "GIT_INDEX_FILE": f"{folder}/index"}
        git(root, "read-tree", "HEAD", environment=environment)
        git(root, "add", "--all", environment=environment)
        return git(root, "write-tree", environment=environment)


def clone(tree: str, folder: Path, root: Path = ROOT) -> Path:
    """Make a clone of the repository with a tree checked out, and return its folder. It uses the checkout's .venv.

    Args:
        tree: Hash of the tree.
        folder: Folder of the clone; an earlier one is replaced.
        root: The checkout.
    """
    shutil.rmtree(folder, ignore_errors=True)
    commit = git(root, "commit-tree", tree, "-p", "HEAD", "-m", "snapshot")
    git(root, "clone", "--quiet", "--shared", "--no-checkout", str(root), str(folder))
    git(folder, "checkout", "--quiet", "--detach", commit)
    (folder / ".venv").symlink_to(root / ".venv")
    return folder


def git(root: Path, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """Run git in a folder and return its output.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    done = subprocess.run(
        ["git", *arguments], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
