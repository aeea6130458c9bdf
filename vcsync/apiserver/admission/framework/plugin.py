"""The interface of admission plug-ins."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.resources import collection_key, object_key
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.decoded import decoded
from vcsync.apiserver.request.scope import Admission
from vcsync.apiserver.storage.interface import Store
from vcsync.process.loop_turns import turn

PAGE = 20
"""Objects that `Lookup.each` reads at once. Each has at most 1.5 MiB."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Lookup:
    """Reads objects of a tenant in their stored form: without kind, apiVersion and resourceVersion.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(
        self, tenant: str, group: str, plural: str, name: str, namespace: str = ""
    ) -> Object | None:
        """Return an object, or None if it does not exist."""
        record = await self._store.get_cached(object_key(tenant, group, plural, namespace, name))
        return None if record is None else _decode(record.value)

    async def all(self, tenant: str, group: str, plural: str, namespace: str = "") -> list[Object]:
        """Return all objects of a resource in one namespace or in all, sorted by name. Nobody may change them."""
        records = await self._store.range_cached(collection_key(tenant, group, plural, namespace))
        return await decoded(records)

    async def each(self, tenant: str, group: str, plural: str, namespace: str = "") -> AsyncIterator[Object]:
        """Yield the same objects one after the other: more of them than memory has room for. Other tasks run in between."""
        prefix, after, more = collection_key(tenant, group, plural, namespace), "", True
        while more:
            page = await self._store.range(prefix, after=after, limit=PAGE)
            for record in page.records:
                yield _decode(record.value)
            more = page.more
            after = page.records[-1].key if page.records else ""
            await turn()


Plugin = Callable[[Admission, Lookup], Awaitable[None]]
"""A plug-in: changes `admission.new` in place, or raises StatusError."""


def creates(admission: Admission, plural: str, group: str = "") -> bool:
    """Return whether the request creates an object of this resource."""
    resource = admission.scope.kind.resource
    return (
        admission.operation == "CREATE"
        and not admission.scope.subresource
        and (resource.group, resource.plural) == (group, plural)
    )


def refusal(admission: Admission, why: str) -> StatusError:
    """Return the 403 of a plug-in that refuses a request."""
    resource = admission.scope.kind.resource
    return errors.forbidden(resource.plural, resource.group, admission.name, why)


def spec_of(admission: Admission) -> Object:
    """Return the spec of the new object. A missing spec is added."""
    assert admission.new is not None  # noqa: S101 - only deletions have none
    spec: Object = admission.new.setdefault("spec", {})
    return spec
