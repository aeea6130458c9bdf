"""The types of CEL variables, derived from the schemas of an OpenAPI v3 document. Pure.

Source: `SchemaDeclType` of k8s.io/apiserver `pkg/cel/common` over `pkg/cel/openapi/resolver`.
"""

from collections.abc import Mapping
from typing import Any

from vcsync.apimachinery.cel.declared import Declared, spellings

_REFERENCE = "#/components/schemas/"
_SCALARS = {"boolean": "bool", "number": "double", "integer": "int"}
_TEXTS = {"byte": "bytes", "duration": "duration", "date": "timestamp", "date-time": "timestamp"}
_TEXT = Declared("string")

Schema = Mapping[str, Any]


class Types:
    """The types of one document.

    Args:
        schemas: `components.schemas`.
    """

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self._known: dict[str, Declared | None] = {}

    def whole(self, name: str) -> Declared | None:
        """Return the type of a schema of whole objects, which always have an identity, or None if unknown."""
        found = self._named(name)
        if found is None or found.kind != "object":
            return None
        fields = dict(found.fields)
        for field in ("apiVersion", "kind"):
            fields.setdefault(field, (field, _TEXT))
        named = {each: (each, _TEXT) for each in ("name", "generateName")}
        fields.setdefault("metadata", ("metadata", Declared("object", fields=named)))
        return Declared("object", fields=fields, plain=False)

    def _named(self, name: str) -> Declared | None:
        if name not in self._known:
            # A schema may contain itself, which upstream treats as an object without fields.
            own = self._known[name] = Declared("object", plain=False)
            found = self._known[name] = self._type(self._schemas.get(name) or {})
            if found is not None and found.kind == "object":
                own.fields = found.fields
        return self._known[name]

    def _type(self, schema: Schema) -> Declared | None:
        """Return a schema's type, or None if expressions do not see it."""
        if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
            return Declared("dyn")
        reference = schema.get("$ref") or _only(schema.get("allOf"))
        if reference:
            return self._named(str(reference).removeprefix(_REFERENCE))
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema)
        if kind == "array":
            element = self._type(schema.get("items") or {})
            return None if element is None else Declared("list", element=element)
        if kind == "string":
            return Declared(_TEXTS.get(schema.get("format") or "", "string"))
        return Declared(_SCALARS[kind]) if kind in _SCALARS else None

    def _object(self, schema: Schema) -> Declared | None:
        further = schema.get("additionalProperties")
        if isinstance(further, Mapping) and further:
            element = self._type(further)
            return None if element is None else Declared("map", element=element)
        found = Declared("object", plain=False)
        for name, below in (schema.get("properties") or {}).items():
            type_ = self._type(below)
            if type_ is not None:
                found.fields |= dict.fromkeys(spellings(name), (name, type_))
        return found


def _only(parts: Any) -> str:
    """Return the reference inside an `allOf` that wraps it to add a description or default."""
    return str(parts[0].get("$ref") or "") if isinstance(parts, list) and len(parts) == 1 else ""
