"""Control groups of nodes: joins one, and removes those whose processes have ended."""

import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
POLL_SECONDS = 0.02


def hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the roots of all hierarchies: one in version 2, several in version 1."""
    if (root / "cgroup.procs").exists():
        return [root]
    # Hierarchies that are mounted together have further names, which are links.
    return [
        each for each in sorted(root.iterdir()) if not each.is_symlink() and (each / "cgroup.procs").exists()
    ]


def join(name: str, root: Path = ROOT) -> None:
    """Move this process into `<name>/init` of every hierarchy, so that the group is in use while the node exists.

    Raises:
        OSError: the machine does not allow it.
    """
    for hierarchy in hierarchies(root):
        group = hierarchy / name / "init"
        group.mkdir(parents=True, exist_ok=True)
        if (hierarchy / "cpuset.cpus").exists():
            _inherit_cpuset(hierarchy, group)
        (group / "cgroup.procs").write_text(str(os.getpid()))


def names(prefix: str, root: Path = ROOT) -> set[str]:
    """Return the names of groups at the top that begin with `prefix`."""
    return {each.name for hierarchy in hierarchies(root) for each in hierarchy.glob(f"{prefix}*/")}


def remove(name: str, seconds: float = 0, root: Path = ROOT) -> bool:
    """Remove a group and the groups in it, and return whether it is gone.

    Args:
        name: of the group.
        seconds: for which to wait for the end of its processes.
        root: folder of the hierarchies.
    """
    deadline = time.monotonic() + seconds
    while not all([_remove_tree(hierarchy / name) for hierarchy in hierarchies(root)]):  # noqa: C419 - try all
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def sweep(prefix: str, root: Path = ROOT) -> None:
    """Remove the groups that nodes of killed test beds left; those with processes remain."""
    for name in names(prefix, root):
        remove(name, root=root)


def _remove_tree(group: Path) -> bool:
    if not group.exists():
        return True
    for folder, _, _ in os.walk(group, topdown=False):
        try:
            Path(folder).rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # it has processes
            return False
    return True


def _inherit_cpuset(hierarchy: Path, group: Path) -> None:
    # In version 1 a group of this hierarchy has no processors at first, and takes no process then.
    for file in ("cpuset.cpus", "cpuset.mems"):
        value = (hierarchy / file).read_text()
        for each in (group.parent, group):
            (each / file).write_text(value)
