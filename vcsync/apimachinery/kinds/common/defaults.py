"""Helper that sets defaults. Pure."""

from vcsync.apimachinery.validation.fields import Object


def fill(found: Object, defaults: Object) -> None:
    """Set the members that are absent."""
    for key, value in defaults.items():
        if found.get(key) is None:
            found[key] = dict(value) if isinstance(value, dict) else value
