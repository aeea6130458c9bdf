"""Access to fields, keys and elements of values. Pure."""

from typing import Any

from vcsync.apimachinery.cel.values import NONE, CelError, Made, NoOverload, Optional, Struct


def has(value: Any, name: str) -> bool:
    """Return whether a field or key exists.

    Raises:
        NoOverload: the value has neither fields nor keys.
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
    """Return the value of a field or key.

    Raises:
        CelError: the field or key does not exist.
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
    """Return the value of a field as an optional value."""
    if isinstance(value, Optional):
        if not value.present:
            return NONE
        value = value.value
    return Optional(field_of(value, name)) if has(value, name) else NONE


def at(value: Any, key: Any) -> Any:
    """Return an element of a list, or the value of a map's key.

    Raises:
        CelError: the element or key does not exist.
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
    """Return an element or a key's value as an optional value."""
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
