"""A built-in or custom resource in one served version, as the registry uses it.

An object has three forms: *stored* (the storage version), *working* (the version of the kind's rules) and *served* (the
version of the request). The working form of built-in kinds is the storage version, that of custom kinds the served one.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from vcsync.apimachinery.copies import copied
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.schema import builtin, walk
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Behaviour, Object

Conversion = Callable[[Object, str], Object]
"""(object, wanted apiVersion) -> the object in that version."""
Step = Callable[[Callable[[], Object]], Awaitable[Object]]
"""Runs pure work, and returns its result."""


async def at_once(work: Callable[[], Object]) -> Object:
    """Run work on the event loop, at once: a `Step` for small objects."""
    return work()


class Kind(Protocol):
    """A kind as the registry uses it.

    Attributes:
        resource: Its declaration.
        behaviour: Its rules, for working objects.
        schema: Schema of served objects, or None if it is not known.
        direct: Whether the stored bytes are the served form except for kind and apiVersion.
        versioned: Whether stored objects include their apiVersion.
        scale: Converts objects to and from Scale, or None if the kind declares no scale.
        replicas: Paths of the replicas (`.spec.replicas`) by apiVersion; None: the version has none.
        columns: Declared printer columns of custom resources.
        warnings: Warnings of every response.
        refusal: Why objects cannot be created, or None if they can.
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

    def decode(self, obj: Object, *, keep_nulls: bool = False) -> list[str]:
        """Prune and default a served object of a request, in place. Returns the paths of unknown fields.

        `keep_nulls` leaves nulls that the schema does not allow, so that validation refuses them.

        Raises:
            DecodeError: The metadata has wrong types.
        """
        ...

    def working(self, served: Object) -> Object:
        """Convert an object from its served to its working form."""
        ...

    def served(self, working: Object) -> Object:
        """Convert an object from its working to its served form."""
        ...

    async def load(self, stored: list[Object], *, large: bool = False) -> list[Object]:
        """Convert objects from their stored to their working form. They have kind and apiVersion.

        `large`: the conversion takes too long for the event loop.
        """
        ...

    async def store(self, working: Object, step: Step = at_once) -> Object:
        """Convert an object from its working to its stored form. `step` runs what takes long if the object is large."""
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

    def decode(self, obj: Object, *, keep_nulls: bool = False) -> list[str]:  # noqa: ARG002 - other kinds need them
        """Do nothing: the decoders of the wire formats know built-in kinds."""
        return []

    def working(self, served: Object) -> Object:
        """Convert an object to the storage version, with defaults."""
        found = self._in(served, self.resource.storage_api_version)
        self.behaviour.default(found)
        return found

    def served(self, working: Object) -> Object:
        """Return a copy of an object in the version of the request."""
        found = self._in(self._normal(copied(working)), self.resource.api_version)
        return found if self.direct or self.schema is None else walk.normalize(found, self.schema)

    async def load(self, stored: list[Object], *, large: bool = False) -> list[Object]:
        """Return the objects unchanged: the rules apply to the storage version."""
        del large
        return stored

    async def store(self, working: Object, step: Step = at_once) -> Object:
        """Normalize an object, because responses are built from stored bytes."""
        return await step(lambda: self._normal(working))

    def _normal(self, obj: Object) -> Object:
        return obj if self._stored is None else walk.normalize(obj, self._stored)

    def _in(self, obj: Object, api_version: str) -> Object:
        if obj.get("apiVersion") == api_version:
            return obj
        if self._conversion is None:
            return {**obj, "apiVersion": api_version}
        return self._conversion(obj, api_version)


def selectable(behaviour: Behaviour) -> frozenset[str]:
    """Return the selectable fields of a kind, in addition to those of all kinds."""
    return frozenset(behaviour.fields({"metadata": {}, "spec": {}, "status": {}}))


Kinds = Mapping[tuple[str, str, str], Kind]
"""(group, version, plural) -> the kind."""
