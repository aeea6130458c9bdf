"""Decodes objects of built-in kinds, and normalizes them to the form of kube-apiserver. Pure.

kube-apiserver decodes every built-in object into Go types, and encodes stored objects and answers from them. This module
has the same effect on JSON objects: it drops the values that Go drops, and adds those that Go writes. The rules of each
struct are compiled once into a plan. The plan handles valid objects; for all others, `findings` repeats the work and
finds the errors.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec

from vcsync.apimachinery import numbers
from vcsync.apimachinery.schema import findings, scalars
from vcsync.apimachinery.schema.findings import DecodeError
from vcsync.apimachinery.schema.gotypes import EXTENSIONS, SCHEMA, GoType, fields
from vcsync.apimachinery.schema.node import Schema

Object = dict[str, Any]
Make = Callable[[Any], Any]
_Rule = tuple[type | None, Make | None, bool, int]
"""(type of its value, or None; function that makes its value, or None; whether empty values stay; position) of a field."""

_KEPT_AS_JSON = (EXTENSIONS, "io.k8s.kube-aggregator.")
"""Types that kube-apiserver stores as JSON, which keeps empty lists. In protobuf, an empty list is an absent one."""


_REFUSED_EMPTY: Mapping[str, tuple[str, ...]] = {
    SCHEMA: ("dependencies",),
    "io.k8s.api.autoscaling.v2.HPAScalingRules": ("policies",),
    "io.k8s.api.batch.v1.PodFailurePolicyOnExitCodesRequirement": ("values",),
    "io.k8s.api.core.v1.EphemeralContainer": ("ports", "resizePolicy", "restartPolicyRules"),
    "io.k8s.api.core.v1.NodeSelector": ("nodeSelectorTerms",),
}
"""Empty lists and maps that validation must see, because it refuses them. They are never stored."""
_TEMPLATES_METADATA = ("finalizers", "managedFields", "ownerReferences")
_REFUSED_EMPTY_IN: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("io.k8s.api.core.v1.PersistentVolume", "spec"): ("capacity",),
    ("io.k8s.api.core.v1.PersistentVolumeClaimTemplate", "metadata"): _TEMPLATES_METADATA,
    ("io.k8s.api.core.v1.Pod", "spec"): ("overhead",),
    ("io.k8s.api.core.v1.PodSpec", "resources"): ("claims",),
    ("io.k8s.api.resource.v1.ResourceSlice", "spec"): ("devices", "sharedCounters"),
    ("io.k8s.api.resource.v1.ResourceClaimTemplateSpec", "metadata"): _TEMPLATES_METADATA,
}
"""The same for types in one particular field: (type, field) -> lists and maps of the value of the field."""


RESOURCE_LIST = "io.k8s.api.core.v1.ResourceList"
"""Type of maps whose quantities have no units finer than thousandths (`SetDefaults_ResourceList`)."""
_NOT_ROUNDED = {("io.k8s.api.node.v1.Overhead", "podFixed")}
"""(struct, field) of such maps that have no defaults."""
_CACHED = ("spec", "status")
"""Fields whose values are large and mostly unchanged between walks."""
_LONGEST_CACHED = 16 * 1024
_MOST_CACHED = 16 * 2**20
"""Most bytes of one cached value, and of all."""
_encode = msgspec.json.Encoder().encode


class _Unfit(Exception):
    """A part of the object does not fit its type."""


def decode(obj: Any, schema: Schema, *, complete: bool = False) -> tuple[Object, list[str]]:
    """Decode the object of a request: drop unknown fields, nulls, and empty values that Go does not see.

    Args:
        obj: The object as sent.
        schema: Schema of its kind.
        complete: Whether to add the zeros that the API adds, as `normalize` does.

    Returns:
        The object, and the paths of unknown fields (`spec.foo`), at most 100, in the order of kube-apiserver. The object is
        new, except for free-form parts, and lists and maps of texts, which it shares with `obj`.

    Raises:
        DecodeError: A value has the wrong type.
    """
    plan = _plan(schema.definition, complete)
    try:
        return plan(obj), []
    except (_Unfit, scalars.InvalidScalar):
        pruned, unknown = findings.examine(obj, schema.definition)
        return plan(pruned), unknown
    except RecursionError:
        raise DecodeError("exceeded max depth") from None


def normalize(obj: Any, schema: Schema) -> Object:
    """Return an object in the form in which the API stores and returns it. Drops unknown fields. Idempotent.

    Fields are in the order of the Go types; keys of maps are sorted.

    Raises:
        DecodeError: A value has the wrong type.
    """
    return decode(obj, schema, complete=True)[0]


def fingerprint(obj: Object) -> bytes | None:
    """Return bytes that two objects share only if they are equal, including the order of members. None: not encodable."""
    try:
        return _encode(obj)
    except (TypeError, ValueError, RecursionError):  # for example, half of a surrogate pair
        return None


@cache
def _plan(definition: str, complete: bool, seen_empty: tuple[str, ...] = ()) -> Make:
    """Compile the rules of a struct.

    Args:
        definition: Public name of the struct.
        complete: Whether to add the zeros that Go writes for absent fields.
        seen_empty: Fields whose empty lists and maps stay.
    """
    rules: dict[str, _Rule] = {}
    zeros: list[tuple[str, Callable[[], Any]]] = []
    struct = _COMPILING[definition, complete, seen_empty] = _walker(rules, zeros, ordered=complete)
    seen_empty += _REFUSED_EMPTY.get(definition, ())
    kept_empty = definition.startswith(_KEPT_AS_JSON)
    for place, (name, field) in enumerate(fields(definition).items()):
        kind = field.type
        keep = _keeps_empty(kind, field.omit_empty, kept_empty) or name in seen_empty
        if (definition, name) in _NOT_ROUNDED:
            kind = replace(kind, alias="")
        expected, make = _rule(kind, complete, _REFUSED_EMPTY_IN.get((definition, name), ()))
        if complete and make is not None and name in _CACHED and kind.sort == "struct":
            make = _cached(make)
        rules[name] = (expected, make, keep, place)
        if complete and not _omitted(kind, field.omit_empty, field.omit_zero):
            zeros.append((name, _zero(kind, complete)))
    return struct


def _cached(make: Make) -> Make:
    """Return a function that has the effect of `make`, but skips values that it has made recently.

    Every write walks objects several times, and encoding a value is ten times as fast as walking it. For a skipped value,
    the function returns a shallow copy.
    """

    def made(value: Any) -> Any:
        if type(value) is not dict:
            return make(value)
        if (make, fingerprint(value)) in _known:
            return dict(value)
        normal = make(value)
        encoded = fingerprint(normal)
        if encoded is not None and len(encoded) <= _LONGEST_CACHED:
            _remember(make, encoded)
        return normal

    return made


_known: dict[tuple[Make, bytes | None], int] = {}
"""(function, fingerprint of its result) -> bytes of all fingerprints up to this entry."""


def _remember(make: Make, encoded: bytes) -> None:
    size = next(reversed(_known.values()), 0) + len(encoded)
    if size > _MOST_CACHED:
        _known.clear()
        size = len(encoded)
    _known[make, encoded] = size


def _completed(
    rules: Mapping[str, _Rule], zeros: Sequence[tuple[str, Callable[[], Any]]]
) -> Callable[[Object, bool], Object]:
    """Return a function that adds the zeros of a struct, and sorts its fields by their positions if necessary."""

    def place(key: str) -> int:
        return rules[key][3]

    def whole(made: Object, in_place: bool) -> Object:
        for key, zero in zeros:
            if key not in made:
                made[key] = zero()
                in_place = False
        return made if in_place else {key: made[key] for key in sorted(made, key=place)}

    return whole


def _walker(
    rules: Mapping[str, _Rule], zeros: Sequence[tuple[str, Callable[[], Any]]], *, ordered: bool
) -> Make:
    """Return the function that walks one struct. It dominates the cost: it runs for every object of every write.

    Args:
        rules: Rules of its fields.
        zeros: Fields that Go writes if they are absent, with functions that make their zeros.
        ordered: Whether to sort fields by their positions. Otherwise they keep the order of the input.
    """
    whole = _completed(rules, zeros)

    def struct(value: Any) -> Object:
        if type(value) is not dict:
            raise _Unfit
        made = {}
        last, in_place = -1, True
        for key, item in value.items():
            rule = rules.get(key)
            if rule is None:
                raise _Unfit
            if item is None:
                continue
            expected, make, keep, at = rule
            if make is not None:
                written = make(item)
            elif type(item) is expected:
                written = item
            else:
                raise _Unfit
            if written or (keep and written is not None):
                made[key] = written
                in_place = in_place and at > last
                last = at
        return whole(made, in_place) if ordered else made

    return struct


_COMPILING: dict[tuple[str, bool, tuple[str, ...]], Make] = {}
"""Plans by definition, registered before they are complete, because types refer to themselves."""


def _struct(definition: str, complete: bool, seen_empty: tuple[str, ...] = ()) -> Make:
    return _COMPILING.get((definition, complete, seen_empty)) or _plan(definition, complete, seen_empty)


def _keeps_empty(kind: GoType, omit_empty: bool, kept_as_json: bool) -> bool:
    """Return whether an explicit empty value stays."""
    if kind.pointer or kind.sort in _NEVER_EMPTY:
        return True
    if kind.sort in ("list", "map"):
        return kept_as_json and not omit_empty
    return not omit_empty


def _omitted(kind: GoType, omit_empty: bool, omit_zero: bool) -> bool:
    """Return whether Go omits a zero value. Structs are never empty; only `omitzero` omits them."""
    whole = not kind.pointer and kind.sort not in (
        "string",
        "bool",
        "int32",
        "int64",
        "float64",
        "bytes",
        "list",
        "map",
    )
    return omit_zero if whole else omit_empty


def _zero(kind: GoType, complete: bool) -> Callable[[], Any]:
    """Return a function that makes the zero value of a type as Go writes it."""
    if kind.pointer:
        return _null
    if kind.sort == "struct":
        struct = _struct(kind.struct, complete)
        return lambda: struct({})
    return _ZEROS.get(kind.sort, _null)


def _null() -> None:
    return None


_ZEROS: Mapping[str, Callable[[], Any]] = {
    "string": str,
    "bool": bool,
    "int32": int,
    "int64": int,
    "float64": int,
    "quantity": lambda: "0",
    "int-or-string": int,
    "schema-or-bool": bool,
}


def _rule(kind: GoType, complete: bool, seen_empty: tuple[str, ...]) -> tuple[type | None, Make | None]:
    """Return the type that a value must have, or the function that makes the value from the input."""
    if kind.sort in _PLAIN:
        return _PLAIN[kind.sort], None
    return None, _maker(kind, complete, seen_empty)


def _maker(kind: GoType, complete: bool, seen_empty: tuple[str, ...] = ()) -> Make:
    if kind.sort == "struct":
        return _struct(kind.struct, complete, seen_empty)
    if kind.sort == "list" and kind.element:
        return _list(kind.element, complete)
    if kind.sort == "map" and kind.element:
        return _map(kind.element, complete, rounds=kind.alias == RESOURCE_LIST)
    if kind.sort.startswith("schema-or-"):
        return _schema_or(kind.sort, complete)
    return _SCALARS[kind.sort]


def _list(element: GoType, complete: bool) -> Make:
    make = _maker(element, complete)
    zero = _zero(element, complete)

    def made(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _Unfit
        return [zero() if item is None else make(item) for item in value]

    def texts(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _Unfit
        for item in value:
            if type(item) is not str:
                return made(value)
        return value

    return texts if element.sort == "string" else made


def _map(element: GoType, complete: bool, *, rounds: bool = False) -> Make:
    make = _rounded_quantity if rounds else _maker(element, complete)
    zero = _zero(element, complete)

    def made(value: Any) -> Object:
        if type(value) is not dict:
            raise _Unfit
        return {key: zero() if value[key] is None else make(value[key]) for key in sorted(value)}

    def texts(value: Any) -> Object:
        if type(value) is not dict:
            raise _Unfit
        for item in value.values():
            if type(item) is not str:
                return made(value)
        ordered = sorted(value)
        return value if ordered == [*value] else {key: value[key] for key in ordered}

    return texts if element.sort == "string" else made


def _schema_or(sort: str, complete: bool) -> Make:
    """Return the function for a field with a schema or a simpler value. It drops unknown fields of the schema."""

    def schema(value: Any) -> Object:
        struct = _struct(SCHEMA, complete)
        try:
            return struct(value)  # type: ignore[no-any-return]
        except (_Unfit, scalars.InvalidScalar):
            return struct(_pruned(value))  # type: ignore[no-any-return]

    def made(value: Any) -> Any:
        if type(value) is dict:
            return schema(value)
        if type(value) is bool and sort == "schema-or-bool":
            return value
        if value == [] and sort != "schema-or-bool":
            return None
        if type(value) is list and sort == "schema-or-list":
            return [schema({} if item is None else item) for item in value]
        if type(value) is list and sort == "schema-or-strings" and all(type(item) is str for item in value):
            return value
        raise _Unfit

    return made


def _pruned(schema: Object) -> Any:
    try:
        return findings.examine(schema, SCHEMA)[0]
    except DecodeError:
        raise _Unfit from None  # `findings` reports it with its path


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _Unfit
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise _Unfit
    return value


def _int32(value: Any) -> int:
    if type(value) is not int or not -0x80000000 <= value <= 0x7FFFFFFF:
        raise _Unfit
    return value


def _int64(value: Any) -> int:
    if type(value) is not int or not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise _Unfit
    return value


def _float(value: Any) -> float:
    if type(value) is int and -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        return value
    try:
        return numbers.whole(value)
    except numbers.OutOfRange:
        raise _Unfit from None


def _quantity(value: Any) -> str:
    if type(value) is str:
        return scalars.quantity(value.strip() if value != "null" else "0")
    if type(value) not in _NUMBERS or abs(value) > scalars.LARGEST_NUMBER:
        raise _Unfit
    return scalars.quantity(numbers.text(value))


def _rounded_quantity(value: Any) -> str:
    return scalars.rounded_quantity(_quantity(value))


def _int_or_string(value: Any) -> int | str:
    return value if type(value) is str else _int32(value)


def _time(value: Any) -> str | None:
    return scalars.time(_text(value))


def _micro_time(value: Any) -> str | None:
    return scalars.micro_time(_text(value))


def _bytes(value: Any) -> str:
    if type(value) is list and all(type(each) is int and 0 <= each <= 255 for each in value):
        return base64.b64encode(bytes(value)).decode()
    return scalars.base64_text(_text(value))


def _anything(value: Any) -> Any:
    return value


_NUMBERS = (int, float, numbers.Written)
_NEVER_EMPTY = frozenset(
    {"struct", "any", "int-or-string", "schema-or-bool", "schema-or-list", "schema-or-strings"}
)
_PLAIN: Mapping[str, type] = {"string": str, "bool": bool}
_SCALARS: Mapping[str, Make] = {
    "string": _text,
    "bool": _flag,
    "int32": _int32,
    "int64": _int64,
    "float64": _float,
    "bytes": _bytes,
    "time": _time,
    "micro-time": _micro_time,
    "quantity": _quantity,
    "int-or-string": _int_or_string,
    "any": _anything,
}
