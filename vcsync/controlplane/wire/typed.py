"""What Go's typed decoder makes of a JSON object of a built-in kind: nothing unknown, right types, zeros as Go has them. Pure.

A plan for each type is compiled once from the table. Behaviour: sigs.k8s.io/json and the JSON tags of the types.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from vcsync.controlplane.wire import types, values

Object = dict[str, Any]
Findings = list[str]
Convert = Callable[[Any, str, Findings], Any]
"""(value, path, unknown fields so far) -> the value as Go would write it back; never called with None."""

MAX_FINDINGS = 100
"""As many as Go's decoder collects."""


class Unfit(ValueError):
    """An object does not fit its type; the message is the one of Go's decoder."""


class _WrongType(Exception):
    """A value has a type that its place does not take; every struct on the way up adds its field's name."""

    def __init__(self, value: str, wanted: str) -> None:
        super().__init__()
        self.value = value
        self.wanted = wanted
        self.struct = ""
        self.fields: list[str] = []

    def __str__(self) -> str:
        place = f"struct field {self.struct}.{'.'.join(reversed(self.fields))}" if self.struct else "value"
        return f"json: cannot unmarshal {self.value} into Go {place} of type {self.wanted}"


class _Entry(NamedTuple):
    convert: Convert
    drop: bool
    """Whether a zero value is left out."""
    struct: str
    go_path: tuple[str, ...]
    """The field's name as Go's messages have it, innermost first: behind the structs that JSON inlines."""


class _Plan(NamedTuple):
    entries: dict[str, _Entry]
    always: tuple[tuple[str, Callable[[], Any]], ...]
    """Members that are there even if nothing was given, with what they are then."""


def fit(kind: types.Message, obj: Object) -> tuple[Object, Findings]:
    """Return the object as the real server's types hold it, and a text for each unknown field (`unknown field "x"`).

    Raises:
        Unfit: a value has the wrong type or does not parse.
    """
    findings: Findings = []
    try:
        return _struct(plan_of(kind.name), obj, "", findings), findings
    except _WrongType as error:
        raise Unfit(str(error)) from None
    except values.BadValue as error:
        raise Unfit(str(error)) from None
    except RecursionError:
        raise Unfit("exceeded max depth") from None


@cache
def plan_of(name: str) -> _Plan:
    """Compile the plan of one type."""
    kind = types.message(name)
    entries: dict[str, _Entry] = {}
    always: list[tuple[str, Callable[[], Any]]] = []
    if kind.kind:
        entries["kind"] = entries["apiVersion"] = _Entry(_string("string"), True, kind.short, ())
    for field in kind.fields:
        if field.inline:
            inner = plan_of(field.base)
            outer = types.message(field.base).short
            entries |= {
                key: entry._replace(struct=kind.short, go_path=(*(entry.go_path or (key,)), outer))
                for key, entry in inner.entries.items()
            }
            always += inner.always
        elif field.name != "-":
            struct = field.base[0].islower() and "." in field.base and not field.many and not field.key
            drop = field.omits and not field.pointer and not struct
            entries[field.name] = _Entry(_converter(field), drop, kind.short, ())
            zero = _zero(field, struct)
            if zero is not None:
                always.append((field.name, zero))
    return _Plan(entries, tuple(always))


def _struct(plan: _Plan, obj: Object, path: str, findings: Findings) -> Object:
    result: Object = {}
    entries = plan.entries
    prefix = f"{path}." if path else ""
    for key, value in obj.items():
        entry = entries.get(key)
        if entry is None:
            if len(findings) < MAX_FINDINGS:
                findings.append(f'unknown field "{prefix}{key}"')
            continue
        if value is None:
            continue
        try:
            converted = entry.convert(value, prefix + key, findings)
        except _WrongType as error:
            error.struct = error.struct or entry.struct
            error.fields += entry.go_path or (key,)
            raise
        if converted or not entry.drop:
            result[key] = converted
    for key, zero in plan.always:
        if key not in result:
            result[key] = zero()
    return result


def _zero(field: types.Field, struct: bool) -> Callable[[], Any] | None:
    """Return what makes the value of a field that nothing was given for; None: it is left out."""
    if struct and not field.pointer:
        return (
            None
            if field.omits_struct
            else _ZERO_STRUCTS.get(field.base) or (lambda: _zero_struct(field.base))
        )
    if field.omits:
        return None
    if field.pointer or field.many or field.key or field.base == "bytes":
        return lambda: None
    if field.base in _ZEROS:
        zero = _ZEROS[field.base]
        return lambda: zero
    return lambda: None


def _zero_struct(name: str) -> Object:
    return {key: zero() for key, zero in plan_of(name).always}


_ZEROS: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "double": 0}
_ZERO_STRUCTS: dict[str, Callable[[], Any]] = {
    "meta/v1.Time": lambda: None,
    "meta/v1.MicroTime": lambda: None,
    "meta/v1.Duration": lambda: "0s",
    "resource.Quantity": lambda: "0",
    "intstr.IntOrString": lambda: 0,
    "runtime.RawExtension": lambda: None,
    "meta/v1.FieldsV1": lambda: None,
    "apiextensions/v1.JSON": lambda: None,
}


def _converter(field: types.Field) -> Convert:
    if field.many:
        return _list(field.base, field.go)
    if field.key:
        return _map(field.base, field.go)
    return _single(field.base, field.go)


def _single(base: str, go: str) -> Convert:
    if base in _SCALARS:
        return _SCALARS[base](go or base)
    if base in _SPECIAL:
        return _SPECIAL[base]
    if types.message(base).bare:
        return _list("string", go)
    return _nested(base, go)


def _nested(base: str, go: str) -> Convert:
    wanted = go or _go_name(base)

    def convert(value: Any, path: str, findings: Findings) -> Any:
        if type(value) is not dict:
            raise _WrongType(_said(value), wanted)
        return _struct(plan_of(base), value, path, findings)

    return convert


def _list(base: str, go: str) -> Convert:
    single = _single(base, go[2:] if go.startswith("[]") else "")
    empty = _element_zero(base)

    def convert(value: Any, path: str, findings: Findings) -> Any:
        if type(value) is not list:
            raise _WrongType(_said(value), go or f"[]{base}")
        return [
            empty() if item is None else single(item, f"{path}[{at}]", findings)
            for at, item in enumerate(value)
        ]

    return convert


def _map(base: str, go: str) -> Convert:
    single = _single(base, go.partition("]")[2] if go.startswith("map[") else "")
    empty = _element_zero(base)

    def convert(value: Any, path: str, findings: Findings) -> Any:
        if type(value) is not dict:
            raise _WrongType(_said(value), go or f"map[string]{base}")
        return {
            key: empty() if item is None else single(item, f"{path}.{key}", findings)
            for key, item in value.items()
        }

    return convert


def _element_zero(base: str) -> Callable[[], Any]:
    if base in _ZEROS:
        zero = _ZEROS[base]
        return lambda: zero
    if base in _ZERO_STRUCTS:
        return _ZERO_STRUCTS[base]
    if base == "bytes" or types.message(base).bare:
        return lambda: None
    return lambda: _zero_struct(base)


def _string(go: str) -> Convert:
    def convert(value: Any, _path: str, _findings: Findings) -> Any:
        if type(value) is not str:
            raise _WrongType(_said(value), go)
        return value

    return convert


def _boolean(go: str) -> Convert:
    def convert(value: Any, _path: str, _findings: Findings) -> Any:
        if type(value) is not bool:
            raise _WrongType(_said(value), go)
        return value

    return convert


def _integer(bits: int) -> Callable[[str], Convert]:
    limit = 1 << (bits - 1)

    def made(go: str) -> Convert:
        def convert(value: Any, _path: str, _findings: Findings) -> Any:
            if type(value) is not int:
                raise _WrongType(f"number {value}" if type(value) is float else _said(value), go)
            if not -limit <= value < limit:
                raise _WrongType(f"number {value}", go)
            return value

        return convert

    return made


def _double(go: str) -> Convert:
    def convert(value: Any, _path: str, _findings: Findings) -> Any:
        if type(value) is not int and type(value) is not float:
            raise _WrongType(_said(value), go)
        return value

    return convert


def _bytes(_go: str) -> Convert:
    def convert(value: Any, _path: str, _findings: Findings) -> Any:
        if type(value) is not str:
            raise _WrongType(_said(value), "[]uint8")
        return values.base64_text(value)

    return convert


_SCALARS: dict[str, Callable[[str], Convert]] = {
    "string": _string,
    "bool": _boolean,
    "int32": _integer(32),
    "int64": _integer(64),
    "double": _double,
    "bytes": _bytes,
}


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _WrongType(_said(value), "string")
    return value


def _time(value: Any, _path: str, _findings: Findings) -> Any:
    text = _text(value)
    seconds = values.whole_seconds(text) if len(text) == 20 else None
    return values.time_text(values.seconds_of(text)[0] if seconds is None else seconds)


def _micro_time(value: Any, _path: str, _findings: Findings) -> Any:
    seconds, nanos = values.seconds_of(_text(value), values.MICRO_LAYOUT)
    return values.micro_time_text(seconds, nanos)


def _duration(value: Any, _path: str, _findings: Findings) -> Any:
    return values.duration_text(values.duration_of(_text(value)))


def _quantity(value: Any, _path: str, _findings: Findings) -> Any:
    return values.quantity(value)


def _int_or_string(value: Any, _path: str, _findings: Findings) -> Any:
    return value if type(value) is str else _NUMBER(value, "", [])


_NUMBER = _integer(32)("int32")


def _anything(value: Any, _path: str, _findings: Findings) -> Any:
    return value


_SCHEMA = "apiextensions/v1.JSONSchemaProps"


def _schema_or(other: type, convert_other: Convert) -> Convert:
    def convert(value: Any, path: str, findings: Findings) -> Any:
        if type(value) is other:
            return convert_other(value, path, findings)
        if type(value) is dict:
            return _struct(plan_of(_SCHEMA), value, path, findings)
        raise values.BadValue(
            "boolean or JSON schema expected" if other is bool else "schema or array expected"
        )

    return convert


def _schemas(value: Any, path: str, findings: Findings) -> Any:
    return _list(_SCHEMA, "[]v1.JSONSchemaProps")(value, path, findings)


def _texts(value: Any, path: str, findings: Findings) -> Any:
    return _list("string", "[]string")(value, path, findings)


_SPECIAL: dict[str, Convert] = {
    "meta/v1.Time": _time,
    "meta/v1.MicroTime": _micro_time,
    "meta/v1.Duration": _duration,
    "meta/v1.FieldsV1": _anything,
    "resource.Quantity": _quantity,
    "intstr.IntOrString": _int_or_string,
    "runtime.RawExtension": _anything,
    "apiextensions/v1.JSON": _anything,
    "apiextensions/v1.JSONSchemaPropsOrBool": _schema_or(bool, _anything),
    "apiextensions/v1.JSONSchemaPropsOrArray": _schema_or(list, _schemas),
    "apiextensions/v1.JSONSchemaPropsOrStringArray": _schema_or(list, _texts),
}


def _go_name(base: str) -> str:
    package, _, name = base.rpartition(".")
    return f"{package.rpartition('/')[2]}.{name}"


def _said(value: Any) -> str:
    """Name a JSON value's type as Go does."""
    return {str: "string", bool: "bool", dict: "object", list: "array"}.get(type(value), "number")
