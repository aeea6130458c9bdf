"""What every admission plug-in is given, and how it refuses."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.resources import collection_key, object_key
from vcsync.controlplane.rest.scope import Admission
from vcsync.controlplane.store.interface import Store

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Lookup:
    """Reads what a tenant has; what is found is in stored form: without kind, apiVersion and resourceVersion."""

    def __init__(self, store: Store) -> None:
        """Take where it is kept."""
        self._store = store

    async def get(
        self, tenant: str, group: str, plural: str, name: str, namespace: str = ""
    ) -> Object | None:
        """Return an object; None: there is none."""
        record = await self._store.known(object_key(tenant, group, plural, namespace, name))
        return None if record is None else _decode(record.value)

    async def all(self, tenant: str, group: str, plural: str, namespace: str = "") -> list[Object]:
        """Return all objects of a resource, in one namespace or all, by name."""
        records = await self._store.known_below(collection_key(tenant, group, plural, namespace))
        return [_decode(record.value) for record in records]


Plugin = Callable[[Admission, Lookup], Awaitable[None]]
"""Changes `admission.new` in place, or raises StatusError."""


def creates(admission: Admission, plural: str, group: str = "") -> bool:
    """Whether an object of this resource is being created."""
    resource = admission.scope.kind.resource
    return (
        admission.operation == "CREATE"
        and not admission.scope.subresource
        and (resource.group, resource.plural) == (group, plural)
    )


def refusal(admission: Admission, why: str) -> StatusError:
    """Return the 403 with which admission refuses."""
    resource = admission.scope.kind.resource
    return errors.forbidden(resource.plural, resource.group, admission.name, why)


def spec_of(admission: Admission) -> Object:
    """Return the spec of what is written, made if it has none."""
    assert admission.new is not None  # noqa: S101 - only deletions have none
    spec: Object = admission.new.setdefault("spec", {})
    return spec
