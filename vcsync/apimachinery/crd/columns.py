"""The printer columns, selectable fields and scale subresource of a CustomResourceDefinition. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vcsync.apimachinery import gotext
from vcsync.apimachinery.errors import FieldError, StatusError, forbidden, internal, wrong
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.wire import jsonpath

_MOST_REPLICAS = 2**31 - 1
_NAME = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a"
    " client to request the generation of an appropriate name automatically. Name is primarily intended for creation"
    " idempotence and configuration definition. Cannot be updated. More info:"
    " https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
_AGE = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed"
    " to be set in happens-before order across separate operations. Clients may not set this value. It is represented"
    " in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info:"
    " https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of tables: members as in a Table's columnDefinitions, and the JSONPath of its value, also compiled."""

    name: str
    type: str
    format: str = ""
    description: str = ""
    priority: int = 0
    json_path: str = ""
    path: jsonpath.Path | None = field(default=None, compare=False, repr=False)


_NAME_COLUMN, _AGE_COLUMN = (
    Column(name, type_, format_, description, 0, path, jsonpath.parse(path))
    for name, type_, format_, description, path in (
        ("Name", "string", "name", _NAME, ".metadata.name"),
        ("Age", "date", "", _AGE, ".metadata.creationTimestamp"),
    )
)


def columns(version: Mapping[str, Any]) -> tuple[Column, ...]:
    """Return the columns of a version's tables: the name, then the declared ones, or the age if none is declared."""
    declared = version.get("additionalPrinterColumns") or ()
    own = tuple(
        Column(
            each["name"],
            each["type"],
            each.get("format") or "",
            # kube-apiserver makes up a description if none is given.
            each.get("description")
            or f"Custom resource definition column (in JSONPath format): {each['jsonPath']}",
            each.get("priority") or 0,
            each["jsonPath"],
            path,
        )
        for each, path in zip(
            declared, jsonpath.parse_all(each["jsonPath"] for each in declared), strict=True
        )
    )
    return (_NAME_COLUMN, *(own or (_AGE_COLUMN,)))


def at(obj: Any, path: Sequence[str]) -> Any:
    """Return the value at a path in an object, or None if it is absent."""
    for name in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(name)
    return obj


def split(path: str) -> tuple[str, ...]:
    """Split `.spec.replicas`."""
    return tuple(path.removeprefix(".").split("."))


def selectable(version: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the paths of a version's selectable fields, by name."""
    paths = [each["jsonPath"] for each in version.get("selectableFields") or ()]
    return {path.removeprefix("."): split(path) for path in paths}


def selected(obj: Object, fields: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return the values of selectable fields, as texts that selectors compare."""
    values = {name: at(obj, path) for name, path in fields.items()}
    return {name: "" if value is None else gotext.plain(value) for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale subresource: the paths of replicas and selector (`.spec.replicas`), empty if not declared."""

    spec: str
    status: str
    selector: str = ""

    def to_scale(self, obj: Object, *, unset: int | None = None) -> Object:
        """Return an object's Scale (autoscaling/v1).

        Args:
            obj: the object.
            unset: the replicas if the object has none. None: such an object is refused.

        Raises:
            StatusError: 500, the object has no replicas.
        """
        replicas = at(obj, split(self.spec))
        if replicas is None:
            replicas = unset
        if replicas is None:
            raise internal(f"the spec replicas field {gotext.quoted(self.spec)} does not exist")
        if not gotext.is_integer(replicas):
            raise internal(_mistyped(self.spec, replicas, "int64"))
        metadata = obj["metadata"]
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        status: Object = {"replicas": at(obj, split(self.status)) or 0}
        selector = at(obj, split(self.selector)) if self.selector else None
        if selector:
            status["selector"] = selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: metadata[name] for name in kept if name in metadata},
            "spec": {"replicas": replicas} if replicas else {},
            "status": status,
        }

    def apply_scale(self, obj: Object, scale: Object) -> None:
        """Set an object's replicas to those of a Scale, in place.

        Raises:
            StatusError: 500, the parent of the replicas path is not an object.
        """
        *path, name = split(self.spec)
        for each in path:
            below = obj.setdefault(each, {})
            if not isinstance(below, dict):
                raise internal(f"value cannot be set because {self.spec} is not a map[string]interface {{}}")
            obj = below
        obj[name] = (scale.get("spec") or {}).get("replicas") or 0

    def validate_spec(self, obj: Object) -> list[FieldError]:
        """Return the findings on the desired replicas."""
        return _replicas(obj, self.spec)

    def validate_status(self, obj: Object) -> list[FieldError]:
        """Return the findings on the replicas and the selector of the status."""
        found = _replicas(obj, self.status)
        if self.selector:
            value = at(obj, split(self.selector))
            if value is not None and not isinstance(value, str):
                found.append(wrong(self.selector, "", _mistyped(self.selector, value, "string")))
        return found


def _mistyped(path: str, value: Any, expected: str) -> str:
    return f"{path} accessor error: {gotext.plain(value)} is of the type {_type(value)}, expected {expected}"


def _type(value: Any) -> str:
    """Return the name of a value's type in Go."""
    types = {
        str: "string", bool: "bool", list: "[]interface {}", dict: "map[string]interface {}", float: "float64",
        type(None): "<nil>",
    }  # fmt: skip
    return types.get(type(value), "int64")


def _replicas(obj: Object, path: str) -> list[FieldError]:
    value: Any = obj
    for name in split(path):
        if value is None or (isinstance(value, dict) and name not in value):
            return []  # null counts as absent on the way (`NestedFieldNoCopy`)
        if not isinstance(value, dict):
            return [wrong(path, 0, _mistyped(path, value, "map[string]interface{}"))]
        value = value[name]
    if not gotext.is_integer(value):
        return [wrong(path, 0, _mistyped(path, value, "int64"))]
    if value < 0:
        return [wrong(path, value, "should be a non-negative integer")]
    if value > _MOST_REPLICAS:
        return [wrong(path, value, f"should be less than or equal to {_MOST_REPLICAS}")]
    return []


def deprecation(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    """Return the warning of a deprecated version, or an empty string."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    group, kind = spec["group"], spec["names"]["kind"]
    told = f"{group}/{version['name']} {kind} is deprecated"
    newer = [
        each["name"]
        for each in spec["versions"]
        if each.get("served")
        and not each.get("deprecated")
        and priority(each["name"]) > priority(version["name"])
    ]
    return f"{told}; use {group}/{max(newer, key=priority)} {kind}" if newer else told


def priority(version: str) -> tuple[int, int, int, tuple[int, ...]]:
    """Return the sort key of a version as Kubernetes orders them: `v2`, `v1`, `v1beta2`, `v1alpha1`, other names."""
    text = version.removeprefix("v")
    for rank, word in ((1, "alpha"), (2, "beta")):
        major, found, minor = text.partition(word)
        if found and major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit():
            return (rank, int(major[:9]), int(minor[:9]), ())
    if version.startswith("v") and text.isascii() and text.isdigit():
        return (3, int(text[:9]), 0, ())
    return (0, 0, 0, tuple(-ord(each) for each in version))


def refused_create(group: str, plural: str, name: str = "") -> StatusError:
    """Return the error for creates while the definition is being deleted."""
    return forbidden(
        plural, group, name, "create not allowed while custom resource definition is terminating"
    )
