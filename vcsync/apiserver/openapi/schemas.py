"""Builds the definitions of the built-in kinds for versions 2 and 3 of OpenAPI. Pure.

In version 3, zero values are defaults, and references to other definitions are inside `allOf`, because a `$ref` must
not have siblings. Version 2 has neither (kube-openapi's generators and `schemaconv`).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from vcsync.apimachinery.schema.builtin import Descriptions, data, descriptions
from vcsync.apimachinery.schema.gotypes import Field, GoType, fields

Schema = dict[str, Any]

PREFIX = {2: "#/definitions/", 3: "#/components/schemas/"}
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

_FREE = {"type": "object"}
_TIME = {"type": "string", "format": "date-time"}
_OWN: Mapping[str, tuple[Schema, Schema]] = {
    _INT_OR_STRING: (
        {"type": "string", "format": "int-or-string"},
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    _QUANTITY: ({"type": "string"}, {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    f"{_META}Time": (_TIME, _TIME),
    f"{_META}MicroTime": (_TIME, _TIME),
    _RAW: (_FREE, _FREE),
    f"{_META}FieldsV1": (_FREE, _FREE),
    f"{_META}Patch": (_FREE, _FREE),
    f"{_EXTENSIONS}CustomResourceSubresourceStatus": (_FREE, _FREE),
    f"{_EXTENSIONS}JSON": ({}, {}),
    f"{_EXTENSIONS}JSONSchemaPropsOrArray": ({}, {}),
    f"{_EXTENSIONS}JSONSchemaPropsOrBool": ({}, {}),
    f"{_EXTENSIONS}JSONSchemaPropsOrStringArray": ({}, {}),
}
"""Name of a type that defines its own schema -> its schemas for versions 2 and 3."""

_ZERO: Mapping[str, Any] = {"struct": {}, "string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0}
_EXTENSION_NAMES = {
    "l": "x-kubernetes-list-type",
    "k": "x-kubernetes-list-map-keys",
    "g": "x-kubernetes-patch-merge-key",
    "s": "x-kubernetes-patch-strategy",
}

EVERYWHERE = frozenset({f"{_META}DeleteOptions", f"{_META}WatchEvent"})
"""Definitions that are kinds of every group and version."""
Keeps = Callable[[str, str], bool]
"""(group, version) -> whether such a definition lists its kind of that group and version."""
_KINDS = "x-kubernetes-group-version-kind"
_UNKNOWN_TO_APIEXTENSIONS = frozenset(
    {"admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"}
)


def narrowed(definition: Schema, keeps: Keeps) -> Schema:
    """Return a definition with only some of its group-version-kinds."""
    kinds = [each for each in definition[_KINDS] if keeps(each["group"], each["version"])]
    return {**definition, _KINDS: kinds}


def is_known_to_apiextensions(group: str, _: str) -> bool:
    """Return whether apiextensions-apiserver, which builds the documents of custom resources, knows a group."""
    return group not in _UNKNOWN_TO_APIEXTENSIONS


def definitions(version: int) -> dict[str, Schema]:
    """Return every definition by name, for version 2 or 3. The result is large and built on each call."""
    writer = _Writer(version, descriptions())
    return {name: writer.definition(name) for name in sorted(data()["definitions"])}


@cache
def references(name: str) -> frozenset[str]:
    """Return the names of all definitions that a definition refers to, directly or through others, and its own."""
    found: set[str] = set()
    waiting = {name}
    while waiting:
        each = waiting.pop()
        found.add(each)
        waiting |= _direct(data()["definitions"][each]) - found
    return frozenset(found)


def _direct(node: Mapping[str, Any]) -> set[str]:
    found = {node["$"]} if "$" in node else set()
    for each in (*node.get("p", {}).values(), *(node[key] for key in "iv" if key in node)):
        found |= _direct(each)
    return found


class _Writer:
    """Builds definitions for one version of OpenAPI.

    Args:
        version: Version of OpenAPI: 2 or 3.
        texts: Descriptions, extensions and enums of the built-in kinds.
    """

    def __init__(self, version: int, texts: Descriptions) -> None:
        self.version = version
        self.texts = texts

    def definition(self, name: str) -> Schema:
        description, property_descriptions, extensions = self.texts.definitions[name]
        head = {"description": description} if description else {}
        if name in _OWN:
            return {**head, **_OWN[name][self.version - 2]}
        node = data()["definitions"][name]
        known = fields(name)
        properties = {
            key: self.property(value, known.get(key), property_descriptions.get(key, ""))
            for key, value in node.get("p", {}).items()
        }
        return {
            **head,
            "type": "object",
            **({"required": node["r"]} if node.get("r") else {}),
            **({"properties": properties} if properties else {}),
            **extensions,
            **({"x-kubernetes-map-type": "atomic"} if "a" in node else {}),
        }

    def property(self, node: Mapping[str, Any], field: Field | None, description: str) -> Schema:
        kind = field.type if field else None
        if kind and kind.alias in self.texts.enums:
            description = f"{description}{_POSSIBLE}{_possible(self.texts.enums[kind.alias])}"
        head = {"description": description} if description else {}
        omitted = field is None or field.omit_empty
        return {**head, **self.value(node, kind, omitted=omitted, alone=not description)}

    def value(self, node: Mapping[str, Any], kind: GoType | None, *, omitted: bool, alone: bool) -> Schema:
        """Return the schema of a property, an item or a value.

        Args:
            node: The recorded schema.
            kind: Go type, if it is known.
            omitted: Whether the field has `omitempty`.
            alone: Whether the schema has no description.
        """
        extensions = {long: node[short] for short, long in _EXTENSION_NAMES.items() if short in node}
        if "a" in node:
            extensions["x-kubernetes-map-type"] = "atomic" if node["a"] else "granular"
        default = self.default(node, kind, omitted=omitted)
        if "$" in node:
            target = {"$ref": f"{PREFIX[self.version]}{node['$']}"}
            has_siblings = not alone or default or extensions
            return {
                **default,
                **({"allOf": [target]} if self.version == 3 and has_siblings else target),
                **extensions,
            }
        return {**self.shape(node, kind), **default, **extensions}

    def default(self, node: Mapping[str, Any], kind: GoType | None, *, omitted: bool) -> Schema:
        if self.version == 2:
            return {}
        if "d" in node:
            return {"default": node["d"]}
        if kind is None or kind.pointer or (omitted and kind.sort != "struct"):
            return {}
        return {"default": _ZERO[kind.sort]} if kind.sort in _ZERO else {}

    def shape(self, node: Mapping[str, Any], kind: GoType | None) -> Schema:
        element = kind.element if kind else None
        if "i" in node:
            return {"type": "array", "items": self.value(node["i"], element, omitted=False, alone=True)}
        if "v" in node:
            return {
                "type": "object",
                "additionalProperties": self.value(node["v"], element, omitted=False, alone=True),
            }
        values = self.texts.enums.get(kind.alias, ()) if kind else ()
        return {
            **({} if node["t"] == "any" else {"type": node["t"]}),
            **({"format": node["f"]} if "f" in node else {}),
            **({"enum": [value for value, _ in values]} if values else {}),
        }


_POSSIBLE = "\n\nPossible enum values:\n"


def _possible(values: Sequence[tuple[str, str]]) -> str:
    lines = [f" - `{json.dumps(value)}` {description}".rstrip() for value, description in values]
    return "\n".join(sorted(lines))
