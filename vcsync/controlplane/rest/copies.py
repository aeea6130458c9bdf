"""Private copies of JSON values, several times faster than `copy.deepcopy`: nothing is shared, nothing refers back. Pure."""

from typing import TypeVar

T = TypeVar("T")


def copied(value: T) -> T:
    """Return a copy of a JSON value that may be changed."""
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}  # type: ignore[return-value]
    if isinstance(value, list):
        return [copied(each) for each in value]  # type: ignore[return-value]
    return value
