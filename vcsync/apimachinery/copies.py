"""Deep copies of JSON values, several times faster than `copy.deepcopy`, because JSON has no shared references. Pure."""

from typing import TypeVar

import msgspec

T = TypeVar("T")
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


def copied(value: T) -> T:
    """Return a copy of a JSON value that may be changed."""
    try:
        return _decode(_encode(value)) if isinstance(value, dict | list) else value
    except (TypeError, ValueError, RecursionError):  # such as half of a surrogate pair
        return _piece_by_piece(value)


def _piece_by_piece(value: T) -> T:
    if isinstance(value, dict):
        return {key: _piece_by_piece(each) for key, each in value.items()}  # type: ignore[return-value]
    if isinstance(value, list):
        return [_piece_by_piece(each) for each in value]  # type: ignore[return-value]
    return value
