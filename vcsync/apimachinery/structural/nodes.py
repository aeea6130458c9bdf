"""Conversion of structural schemas to the form that patches, decoding and OpenAPI share (`schema.node`). Pure."""

from vcsync.apimachinery.schema.node import ListType, Schema, Type
from vcsync.apimachinery.structural.schema import Structural

_KNOWN: dict[str, Type] = {
    "object": "object", "array": "array", "string": "string", "integer": "integer", "number": "number",
    "boolean": "boolean",
}  # fmt: skip
_LISTS: dict[str, ListType] = {"set": "set", "map": "map"}
_TOLD = frozenset(
    {
        "type",
        "format",
        "properties",
        "additionalProperties",
        "items",
        "required",
        "nullable",
        "enum",
        "default",
        "description",
    }
)
_TEXT = Schema("string")
_TIME = Schema("string", format="date-time")
_NUMBER = Schema("integer", format="int64")
_OWNER = Schema(
    "object",
    atomic=True,
    required=("apiVersion", "kind", "name", "uid"),
    properties={
        "apiVersion": _TEXT, "kind": _TEXT, "name": _TEXT, "uid": _TEXT, "controller": Schema("boolean"),
        "blockOwnerDeletion": Schema("boolean"),
    },
    definition="io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference",
)  # fmt: skip
_ENTRY = Schema(
    "object",
    properties={
        "manager": _TEXT, "operation": _TEXT, "apiVersion": _TEXT, "time": _TIME, "fieldsType": _TEXT,
        "fieldsV1": Schema("any"), "subresource": _TEXT,
    },
    definition="io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry",
)  # fmt: skip
METADATA = Schema(
    "object",
    properties={
        "name": _TEXT, "generateName": _TEXT, "namespace": _TEXT, "selfLink": _TEXT, "uid": _TEXT,
        "resourceVersion": _TEXT, "generation": _NUMBER, "creationTimestamp": _TIME, "deletionTimestamp": _TIME,
        "deletionGracePeriodSeconds": _NUMBER, "labels": Schema("map", values=_TEXT),
        "annotations": Schema("map", values=_TEXT),
        "finalizers": Schema("array", items=_TEXT, list_type="set", patch_strategy=frozenset({"merge"})),
        "ownerReferences": Schema(
            "array", items=_OWNER, list_type="map", map_keys=("uid",), patch_strategy=frozenset({"merge"}),
            merge_key="uid",
        ),
        "managedFields": Schema("array", items=_ENTRY),
    },
    definition="io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
)  # fmt: skip
"""The schema of ObjectMeta, which is the same in every kind."""


def to_schema(node: Structural, *, whole: bool = True, preserve: bool = False) -> Schema:
    """Convert a structural schema.

    Args:
        node: The schema.
        whole: Whether it is that of whole objects, which have an identity.
        preserve: Whether a schema above preserves unknown fields. For patches, everything below does so, too, although
            objects are pruned there (`visitSpec` of kube-openapi's schemaconv).
    """
    raw = node.raw
    preserve |= node.preserve
    properties = {
        name: to_schema(each, whole=False, preserve=preserve) for name, each in node.properties.items()
    }
    own = whole or node.embedded
    if own:
        properties |= {"apiVersion": _TEXT, "kind": _TEXT, "metadata": METADATA}
    type_: Type = "any"
    if node.int_or_string:
        type_ = "int-or-string"
    elif node.type:
        type_ = _KNOWN.get(node.type, "any")
    if type_ == "object" and node.free_keys and not node.properties and not own:
        type_ = "map"
    values = None
    if node.additional is not None:
        values = to_schema(node.additional, whole=False, preserve=preserve)
    if values is None and node.free_keys and raw.get("additionalProperties") is not False:
        values = Schema("any", preserve_unknown=True)
    return Schema(
        type_,
        format=raw.get("format") or "",
        properties=properties,
        values=values,
        items=to_schema(node.items, whole=False, preserve=preserve) if node.items is not None else None,
        required=tuple(raw.get("required") or ()),
        nullable=node.nullable,
        enum=tuple(raw.get("enum") or ()),
        default=node.default,
        list_type=_LISTS.get(node.list_type, "atomic"),
        map_keys=node.map_keys,
        atomic=node.map_type == "atomic",
        preserve_unknown=preserve,
        embedded=node.embedded,
        description=raw.get("description") or "",
        extra={name: value for name, value in raw.items() if name not in _TOLD},
    )
