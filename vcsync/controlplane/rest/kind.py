"""One resource in one served version, as the registry works with it, built-in or custom.

An object has three forms: *stored* (storage version), *working* (the version its behaviour's rules are written for)
and *served* (the version of the request). Built-in kinds work in their storage version, custom ones in the served one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from vcsync.controlplane.behaviour import Behaviour, Object
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest.copies import copied
from vcsync.controlplane.schema import builtin, walk
from vcsync.controlplane.schema.node import Schema

Conversion = Callable[[Object, str], Object]
"""(object, wanted apiVersion) -> the object in that version."""


class Kind(Protocol):
    """What the registry asks of a kind.

    Attributes:
        resource: its declaration.
        behaviour: its rules, on working objects.
        schema: of served objects; None: not known.
        direct: stored bytes are the served form but for kind and apiVersion.
        versioned: whether what is kept tells its apiVersion.
        scale: an object with `to_scale(obj) -> Scale` and `apply_scale(obj, scale)`; None: none by declaration.
        replicas: where objects have the replicas of their scale (`.spec.replicas`), by apiVersion; None: nowhere.
        columns: declared printer columns (custom resources).
        warnings: go out with every answer.
        refusal: why nothing can be created; None: it can.
    """

    @property
    def resource(self) -> Resource: ...  # noqa: D102 - see the class
    @property
    def behaviour(self) -> Behaviour: ...  # noqa: D102 - see the class
    @property
    def schema(self) -> Schema | None: ...  # noqa: D102 - see the class
    @property
    def direct(self) -> bool: ...  # noqa: D102 - see the class
    @property
    def versioned(self) -> bool: ...  # noqa: D102 - see the class
    @property
    def scale(self) -> Any: ...  # noqa: D102 - see the class
    @property
    def replicas(self) -> Mapping[str, str | None]: ...  # noqa: D102 - see the class
    @property
    def columns(self) -> Sequence[Any]: ...  # noqa: D102 - see the class
    @property
    def warnings(self) -> tuple[str, ...]: ...  # noqa: D102 - see the class
    @property
    def refusal(self) -> StatusError | None: ...  # noqa: D102 - see the class

    def __hash__(self) -> int: ...

    def decode(self, obj: Object) -> list[str]:
        """Prune and default a served object that came in, in place; return the paths of unknown fields.

        Raises:
            DecodeError: metadata is of wrong types.
        """
        ...

    def working(self, served: Object) -> Object:
        """Served to working."""
        ...

    def served(self, working: Object) -> Object:
        """Working to served."""
        ...

    async def load(self, stored: list[Object]) -> list[Object]:
        """Stored to working; objects have kind and apiVersion."""
        ...

    async def store(self, working: Object) -> Object:
        """Working to stored."""
        ...


class BuiltinKind:
    """A kind that every tenant has."""

    versioned = False
    scale: Any = None
    columns: Sequence[Any] = ()
    refusal: StatusError | None = None

    def __init__(
        self,
        resource: Resource,
        behaviour: Behaviour,
        schema: Schema | None,
        conversion: Conversion | None = None,
        warnings: tuple[str, ...] = (),
    ) -> None:
        """Take what other rooms know of it; `conversion` None: its versions differ in nothing but their name."""
        self.resource = resource
        self.behaviour = behaviour
        self.schema = schema
        self._stored = builtin.schema(resource.storage_group, resource.storage, resource.kind)
        self.warnings = warnings
        same = resource.api_version == resource.storage_api_version
        self._conversion = None if same else conversion
        self.direct = self._conversion is None
        self.replicas: Mapping[str, str | None] = {resource.api_version: ".spec.replicas"}

    def decode(self, obj: Object) -> list[str]:  # noqa: ARG002 - other kinds need it
        """Nothing is left to do: the wire's decoder knows built-in kinds."""
        return []

    def working(self, served: Object) -> Object:
        """Bring what came in to the storage version, with defaults."""
        found = self._in(served, self.resource.storage_api_version)
        self.behaviour.default(found)
        return found

    def served(self, working: Object) -> Object:
        """Bring a copy of an object to the version of the request, as answers have it."""
        found = self._in(self._normal(copied(working)), self.resource.api_version)
        return found if self.direct or self.schema is None else walk.normalize(found, self.schema)

    async def load(self, stored: list[Object]) -> list[Object]:
        """Nothing is to be done: rules are written for the form in which objects are kept."""
        return stored

    async def store(self, working: Object) -> Object:
        """Bring it into the form that answers have: they are made of stored bytes."""
        return self._normal(working)

    def _normal(self, obj: Object) -> Object:
        return obj if self._stored is None else walk.normalize(obj, self._stored)

    def _in(self, obj: Object, api_version: str) -> Object:
        if obj.get("apiVersion") == api_version:
            return obj
        if self._conversion is None:
            return {**obj, "apiVersion": api_version}
        return self._conversion(obj, api_version)


def selectable(behaviour: Behaviour) -> frozenset[str]:
    """Return the fields of a kind that can be selected by, beyond those of all kinds."""
    return frozenset(behaviour.fields({"metadata": {}, "spec": {}, "status": {}}))


Kinds = Mapping[tuple[str, str, str], Kind]
"""(group, version, plural) -> the kind."""
