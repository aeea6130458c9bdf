"""Paths of fields as messages show them: `spec.versions[0].schema`, `metadata.labels[a]`. Pure."""


def child(path: str, *names: str) -> str:
    """Return the path of a field."""
    return ".".join((path, *names)) if path else ".".join(names)


def key(path: str, name: str) -> str:
    """Return the path of a map's value."""
    return f"{path}[{name}]"


def index(path: str, position: int) -> str:
    """Return the path of an array's item."""
    return f"{path}[{position}]"
