"""Fields, keys and elements of values. Pure."""

from typing import Any

from vcsync.controlplane.cel.values import NONE, CelError, Made, NoOverload, Optional, Struct


def has(value: Any, name: str) -> bool:
    """Tell whether a field or key is there.

    Raises:
        NoOverload: the value has neither.
    """
    if isinstance(value, Struct):
        return value.has(name)
    if isinstance(value, dict):
        return name in value
    if isinstance(value, Made):
        return name in value.fields
    if isinstance(value, Optional):
        return value.present and has(value.value, name)
    raise NoOverload


def field_of(value: Any, name: str) -> Any:
    """Return a field's or key's value.

    Raises:
        CelError: it is not there.
    """
    if isinstance(value, Struct):
        return value.get(name)
    if isinstance(value, dict):
        if name not in value:
            raise CelError(f"no such key: {name}")
        return value[name]
    if isinstance(value, Made):
        return value.get(name)
    if isinstance(value, Optional):
        return optional_field(value, name)
    raise NoOverload


def optional_field(value: Any, name: str) -> Optional:
    """Return a field's value as an optional one."""
    if isinstance(value, Optional):
        if not value.present:
            return NONE
        value = value.value
    return Optional(field_of(value, name)) if has(value, name) else NONE


def at(value: Any, key: Any) -> Any:
    """Return an element of a list or the value of a key.

    Raises:
        CelError: it is not there.
    """
    if isinstance(value, Optional):
        return optional_at(value, key)
    if isinstance(value, list):
        if isinstance(key, float) and key.is_integer():
            key = int(key)
        if not isinstance(key, int) or isinstance(key, bool):
            raise CelError(f"unsupported index type '{type(key).__name__}' in list")
        if not 0 <= key < len(value):
            raise CelError(f"index out of bounds: {int(key)}")
        return value[key]
    if isinstance(value, dict):
        if isinstance(key, list | dict | Struct | Optional) or key not in value:
            raise CelError(f"no such key: {key}")
        return value[key]
    if isinstance(value, Struct) and isinstance(key, str):
        return value.get(key)
    raise NoOverload


def optional_at(value: Any, key: Any) -> Optional:
    """Return an element or value as an optional one."""
    if isinstance(value, Optional):
        if not value.present:
            return NONE
        value = value.value
    try:
        return Optional(at(value, key))
    except NoOverload:
        raise
    except CelError:
        return NONE
