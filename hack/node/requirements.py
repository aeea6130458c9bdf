"""Requirements of real nodes, and those that a machine does not meet."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from hack.node import cgroups

PROGRAMS = {"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
"""Program -> Debian's package."""
HIDDEN = (Path("/run"), Path("/var/lib"), Path("/var/log"))
"""Folders that a node has for itself, so that it does not see the machine's."""


def missing(folders: Iterable[Path]) -> list[str]:
    """Return what this machine lacks for a real node, each with the remedy; empty: nothing.

    Args:
        folders: which the node's programs must see.
    """
    found = [
        f"the program {name} (Debian's package {package})"
        for name, package in PROGRAMS.items()
        if shutil.which(name) is None
    ]
    if os.geteuid() != 0:
        return [*found, "root: run as root"]
    return [*found, *_namespaces(), *_cgroups(), *_overlay(), *hidden(folders)]


def hidden(folders: Iterable[Path]) -> list[str]:
    """Return a line for each folder that a node would not see."""
    return [
        f"a place for {folder} outside {parent}, which a node has for itself: choose another folder"
        for folder in folders
        for parent in HIDDEN
        if folder.resolve().is_relative_to(parent)
    ]


def _namespaces() -> list[str]:
    if shutil.which("unshare") is None:
        return []
    trial = ["unshare", "--mount", "--net", "--pid", "--fork", "true"]
    done = subprocess.run(trial, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode == 0:
        return []
    return [
        f"mount, network and process id namespaces, for which a container must be privileged: {done.stderr.strip()}"
    ]


def _cgroups() -> list[str]:
    try:
        roots = cgroups.hierarchies()
    except OSError:
        roots = []
    if roots and all(os.access(each, os.W_OK) for each in roots):
        return []
    return [f"control groups that can be changed: mount them at {cgroups.ROOT} writable"]


def _overlay() -> list[str]:
    if "\toverlay\n" in Path("/proc/filesystems").read_text():
        return []
    return ["the file system overlay: load the kernel's module of this name"]
