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
    """What stands at one place of an object. Built once, then read only.

    Attributes:
        type: what kind of value.
        format: `int32`, `int64`, `double`, `byte`, `date-time`, `micro-time`, `duration`, ... or empty.
        properties: of an object.
        values: of a map, under every key; of an object with free keys beside its properties too.
        items: of an array.
        required: properties that must be there.
        nullable: whether null is a value (custom resources) instead of meaning absence.
        enum: the values allowed, none: all.
        default: what stands here when nothing was given (custom resources; built-in defaults are code).
        list_type: how server-side apply merges an array.
        map_keys: which fields tell the items of a `map` list apart.
        atomic: of an object or map: one field for server-side apply, never merged.
        patch_strategy: of strategic merge patches: `merge`, `replace`, `retainKeys`, in any mixture.
        merge_key: which field tells the items of a merged array apart in strategic merge patches.
        preserve_unknown: unknown fields stay (x-kubernetes-preserve-unknown-fields).
        embedded: a whole object with apiVersion, kind and metadata of its own.
        description: for `kubectl explain`.
        definition: the public name of the type that stands here (`io.k8s.api.core.v1.PodSpec`), if it has one.
        extra: further keywords of a custom resource's schema (`minimum`, `pattern`, `x-kubernetes-validations`, ...).
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
"""(group, version, kind) -> the schema of whole objects of that kind; None: no such kind."""
