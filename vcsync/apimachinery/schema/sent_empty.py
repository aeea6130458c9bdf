"""Empty lists and maps that kube-apiserver distinguishes from absent ones until it stores an object. Pure.

Decoded JSON distinguishes `[]` from an absent list; protobuf does not. Until an object is encoded for etcd, defaults and
field managers see the difference.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from vcsync.apimachinery.schema.gotypes import fields

Object = dict[str, Any]

_VISIBLE: Mapping[str, tuple[str, ...]] = {
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus": ("currentMetrics",),
    "io.k8s.api.core.v1.LimitRangeSpec": ("limits",),
    "io.k8s.api.core.v1.NodeStatus": ("allocatable",),
    "io.k8s.api.discovery.v1.EndpointSlice": ("endpoints", "ports"),
    "io.k8s.api.rbac.v1.ClusterRole": ("rules",),
    "io.k8s.api.rbac.v1.Role": ("rules",),
    "io.k8s.api.resource.v1.DeviceClaim": ("requests",),
    "io.k8s.api.storage.v1.CSINodeSpec": ("drivers",),
}
"""Fields for which the difference decides a default or an owner, by the public name of their type."""


class Place(NamedTuple):
    """A place in an object where an empty value is visible.

    Attributes:
        parents: Names of the structs that contain it, outermost first.
        name: Name of the field.
        omitted: Whether Go omits an empty value.
    """

    parents: tuple[str, ...]
    name: str
    omitted: bool


@cache
def places(definition: str) -> tuple[Place, ...]:
    """Return the places in objects of a type where an empty value is visible.

    The search does not enter lists, maps and pointers: their content is new as a whole, and therefore owned.
    """
    result = []
    for name, field in fields(definition).items():
        if name in _VISIBLE.get(definition, ()):
            result.append(Place((), name, field.omit_empty))
        elif field.type.sort == "struct" and not field.type.pointer:
            result += [Place((name, *each.parents), *each[1:]) for each in places(field.type.struct)]
    return tuple(result)


def empty_places(obj: Any, definition: str) -> list[Place]:
    """Return the places of an object that contain an empty list or map. The object may be malformed."""
    return [each for each in places(definition) if _parent(obj, each).get(each.name) in ([], {})]


def keep(sent: Any, fitted: Object, definition: str) -> None:
    """Copy the empty values of a sent object into its decoded form, in place.

    Args:
        sent: The object as sent by the client.
        fitted: The decoded object.
        definition: Public name of its type.
    """
    for each in empty_places(sent, definition):
        _parent(fitted, each)[each.name] = _parent(sent, each)[each.name]


def show(obj: Object, empty: Sequence[Place]) -> None:
    """Change an object, in place, into the form that Go encodes while the given places are empty.

    Args:
        obj: The object, with defaults.
        empty: Places of empty values. All of them are lists, except those that Go omits.
    """
    for each in empty:
        parent = _parent(obj, each)
        if each.omitted:
            parent.pop(each.name, None)
        else:
            parent[each.name] = []


def _parent(obj: Any, place: Place) -> Object:
    for name in place.parents:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj if isinstance(obj, dict) else {}
