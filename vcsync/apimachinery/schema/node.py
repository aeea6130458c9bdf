"""One node of a schema, the same for built-in kinds and custom resources. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Type = Literal[
    "object", "map", "array", "string", "integer", "number", "boolean", "int-or-string", "quantity", "any"
]
"""`object` has named properties, `map` only values under free keys, `any` is free-form JSON."""

ListType = Literal["atomic", "set", "map"]


@dataclass(slots=True)
class Schema:
    """The schema of a value at one place of an object. Read only once it is built.

    Attributes:
        type: Type of the value.
        format: `int32`, `int64`, `double`, `byte`, `date-time`, `micro-time`, `duration`, ... or empty.
        properties: Schemas of the properties of an object.
        values: Schema of the values of a map, or of the free keys of an object besides its properties.
        items: Schema of the items of an array.
        required: Properties that must be present.
        nullable: Whether null is a value (custom resources). Otherwise null means absence.
        enum: Allowed values; empty: all.
        default: Value of an absent field (custom resources; the defaults of built-in kinds are code).
        list_type: How server-side apply merges an array.
        map_keys: Fields that identify the items of a `map` list.
        atomic: Whether server-side apply treats an object or map as one field, and never merges it.
        patch_strategy: Strategic merge patches: any combination of `merge`, `replace`, `retainKeys`.
        merge_key: Field that identifies the items of a merged array in strategic merge patches.
        preserve_unknown: Whether unknown fields stay (x-kubernetes-preserve-unknown-fields here or, in custom resources, above).
        embedded: Whether the value is a whole object with its own apiVersion, kind and metadata.
        description: Description for `kubectl explain`.
        definition: Public name of the type (`io.k8s.api.core.v1.PodSpec`), if it has one.
        extra: Other keywords of the schema of a custom resource (`minimum`, `pattern`, `x-kubernetes-validations`, ...).
    """

    type: Type
    format: str = ""
    properties: Mapping[str, "Schema"] = field(default_factory=dict)
    values: "Schema | None" = None
    items: "Schema | None" = None
    required: tuple[str, ...] = ()
    nullable: bool = False
    enum: tuple[Any, ...] = ()
    default: Any = None
    list_type: ListType = "atomic"
    map_keys: tuple[str, ...] = ()
    atomic: bool = False
    patch_strategy: frozenset[str] = frozenset()
    merge_key: str = ""
    preserve_unknown: bool = False
    embedded: bool = False
    description: str = ""
    definition: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


Lookup = Callable[[str, str, str], "Schema | None"]
"""(group, version, kind) -> the schema of objects of the kind, or None if the kind does not exist."""
