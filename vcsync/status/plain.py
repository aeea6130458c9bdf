"""Converts the state of roles to JSON values. Pure."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import msgspec


def plain(value: Any) -> Any:
    """Return a value as JSON values.

    Keys become text. The parts of a tuple are joined with ``/``. A value without a JSON form becomes its text.
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain(item) for item in value]
    try:
        return plain(msgspec.to_builtins(value, str_keys=True, enc_hook=str))
    except (TypeError, msgspec.MsgspecError):
        return str(value)


def _key(key: object) -> str:
    return "/".join(map(str, key)) if isinstance(key, tuple) else str(key)
