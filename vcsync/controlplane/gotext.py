"""How Go prints values and types, where API messages quote them. Pure."""

from typing import Any

_TYPES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}
_JSON_TYPES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}


def printed(value: Any) -> str:
    """Write a JSON value as `%v` does: `map[image:nginx ports:[80 81]]`."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{printed(value[name])}" for name in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(printed, value)) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return str(value)


def type_name(value: Any) -> str:
    """Name the type that a JSON value has in Go."""
    return _TYPES.get(type(value), "<nil>")


def json_type(value: Any) -> str:
    """Name the type of a JSON value as encoding/json does: `cannot unmarshal array into ...`."""
    return _JSON_TYPES.get(type(value), "null")


def ordered(value: Any) -> Any:
    """Return a JSON value with the members of its objects in the order in which Go writes those of a map."""
    if isinstance(value, dict):
        return {name: ordered(value[name]) for name in sorted(value)}
    return [ordered(each) for each in value] if isinstance(value, list) else value
