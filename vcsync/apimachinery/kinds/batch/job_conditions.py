"""Look-up of a Job's conditions. Pure."""

from vcsync.apimachinery.validation.fields import Object, items, text


def condition(status: Object, kind: str) -> bool:
    """Return whether a condition is true."""
    return any(
        text(each, "type") == kind and text(each, "status") == "True" for each in items(status, "conditions")
    )
