"""Paths of fields as messages show them: `spec.versions[0].schema`, `metadata.labels[a]`. Pure.

Very long ones are cut: see `message_size.extended`.
"""

from vcsync.apimachinery.message_size import extended


def child(path: str, *names: str) -> str:
    """Return the path of a field."""
    suffix = ".".join(names)
    return extended(path, f".{suffix}" if path else suffix)


def key(path: str, name: str) -> str:
    """Return the path of a map's value."""
    return extended(path, f"[{name}]")


def index(path: str, position: int) -> str:
    """Return the path of an array's item."""
    return extended(path, f"[{position}]")
