"""Everything that the generic registry needs to serve one resource in one version, built-in or custom. Pure."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from vcsync.controlplane.behaviour import Behaviour, Object
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.schema.node import Schema

Normalize = Callable[[Object], list[str]]
Convert = Callable[[Sequence[Object], str], Awaitable[list[Object]]]


def _as_it_is(_: Object) -> list[str]:
    return []


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column of a custom resource, as its definition declares it."""

    name: str
    type: str
    json_path: str
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a custom resource keeps what its `scale` subresource shows, as JSON paths (`.spec.replicas`)."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""


@dataclass(frozen=True, slots=True)
class Handler:
    """One resource in one served version.

    Attributes:
        resource: its declaration.
        behaviour: rules on objects in the storage version.
        schema: whole objects in the served version, as requests carry them.
        normalize: drops in place what has no place in the served version, and tells what it dropped
            (`unknown field "spec.x"`); raises StatusError 400 when a value has the wrong type.
        convert: (objects with kind and apiVersion, wanted apiVersion) -> the same objects in that version, in
            order. None: versions differ in nothing but their name.
        columns: printer columns of a custom resource.
        scale: set when a custom resource has a `scale` subresource.
        selectable: JSON paths that field selectors may name (custom resources).
    """

    resource: Resource
    behaviour: Behaviour
    schema: Schema | None = None
    normalize: Normalize = _as_it_is
    convert: Convert | None = None
    columns: tuple[Column, ...] = ()
    scale: ScalePaths | None = None
    selectable: tuple[str, ...] = field(default=())
