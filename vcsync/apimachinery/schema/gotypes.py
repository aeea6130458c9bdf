"""The Go types of the built-in kinds, and how encoding/json treats each field. Pure.

kube-apiserver decodes every built-in object into these types and encodes it from them. So they decide which empty
values are visible, which zeros are added, and the messages of type errors. The data come from the json tags.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from vcsync.apimachinery.schema.builtin import data

Sort = Literal[
    "string", "bool", "uint8", "int32", "int64", "float64", "bytes", "list", "map", "struct", "time", "micro-time",
    "quantity", "int-or-string", "any", "schema-or-bool", "schema-or-list", "schema-or-strings",
]  # fmt: skip

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
SCHEMA = f"{EXTENSIONS}JSONSchemaProps"

_OWN: Mapping[str, Sort] = {
    f"{META}Time": "time",
    f"{META}MicroTime": "micro-time",
    f"{META}FieldsV1": "any",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    f"{EXTENSIONS}JSON": "any",
    f"{EXTENSIONS}JSONSchemaPropsOrBool": "schema-or-bool",
    f"{EXTENSIONS}JSONSchemaPropsOrArray": "schema-or-list",
    f"{EXTENSIONS}JSONSchemaPropsOrStringArray": "schema-or-strings",
}
"""Types with their own JSON encoding."""

_BASIC: Mapping[str, Sort] = {
    "string": "string",
    "bool": "bool",
    "int": "int64",
    "int32": "int32",
    "int64": "int64",
    "float64": "float64",
}


@dataclass(frozen=True, slots=True)
class GoType:
    """A Go type.

    Attributes:
        sort: Its JSON encoding.
        name: Name as Go prints it (`int32`, `v1.PodSpec`, `map[string]string`).
        element: Type of the elements of a list, or of the values of a map.
        struct: Public name of the definition of a struct.
        pointer: Whether it is a pointer to the type. A pointer to a zero value differs from an absent value.
        alias: Public name of a named type that is not a struct.
    """

    sort: Sort
    name: str
    element: "GoType | None" = None
    struct: str = ""
    pointer: bool = False
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct.

    Attributes:
        type: Type of the field.
        omit_empty: Whether empty values are omitted. Structs and times are never empty in this sense.
        omit_zero: Whether zero values are omitted.
        through: Names of the embedded structs that contain the field, each followed by a dot.
    """

    type: GoType
    omit_empty: bool
    omit_zero: bool
    through: str


@cache
def fields(struct: str) -> Mapping[str, Field]:
    """Return the fields of a struct by their JSON names, in Go's order.

    Args:
        struct: Public name of the definition of the struct.
    """
    listed = data()["go"].get(struct, ())
    return {
        name: Field(go_type(kind), "e" in options, "z" in options, through)
        for name, kind, options, through in listed
    }


@cache
def go_type(text: str) -> GoType:
    """Parse a type of the data file: Go's syntax with public names (`[]io.k8s.api.core.v1.Container`)."""
    if text.startswith("*"):
        to = go_type(text[1:])
        return replace(to, pointer=True)
    if text == "[]byte":
        return GoType("bytes", "[]uint8")
    if text.startswith("[]"):
        element = go_type(text[2:])
        return GoType("list", f"[]{element.name}", element)
    if text.startswith("map["):
        key, _, value = text[4:].partition("]")
        element = go_type(value)
        return GoType("map", f"map[{_printed(key)}]{element.name}", element)
    return _named(text)


def _named(text: str) -> GoType:
    if text in _BASIC:
        return GoType(_BASIC[text], text)
    if text in _OWN:
        return GoType(_OWN[text], _printed(text))
    alias = data()["aliases"].get(text)
    if alias is None:
        return GoType("struct", _printed(text), struct=text)
    under = go_type(alias)
    return replace(under, name=_printed(text), alias=text)


def _printed(text: str) -> str:
    return ".".join(text.split(".")[-2:])
