"""Reads a tenant's FlowSchemas and PriorityLevelConfigurations from the store."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

import msgspec

from vcsync.apimachinery.resources import collection_key
from vcsync.apiserver.flow import classification as rules
from vcsync.apiserver.flow.classification import LevelConfiguration, Schema
from vcsync.apiserver.storage.interface import Record, Store

GROUP = "flowcontrol.apiserver.k8s.io"
SCHEMAS, LEVELS = "flowschemas", "prioritylevelconfigurations"
MARK = f"/{GROUP}/"
"""Part of the keys of both kinds."""
PAGE = 500
"""Objects in one read from the store."""
_Read = TypeVar("_Read")
MAX_BYTES = 256 * 1024
"""Total size of the schemas that apply to a tenant: the cost of classifying a request grows with it."""


async def read(store: Store, tenant: str) -> tuple[Sequence[Schema], Sequence[LevelConfiguration]]:
    """Read the configuration of a tenant. Schemas beyond `MAX_BYTES` are ignored.

    Args:
        store: The store.
        tenant: The tenant. Empty: the unknown tenant, which has no configuration.

    Raises:
        StoreError: The store cannot be read.
    """
    if not tenant:
        return (), ()
    schemas: list[Schema] = []
    size = 0
    async for record in records(store, tenant, SCHEMAS):
        size += len(record.value)
        if size <= MAX_BYTES and (schema := _decoded(record.value, rules.read_schema)):
            schemas.append(schema)
    levels = [
        level
        async for record in records(store, tenant, LEVELS)
        if (level := _decoded(record.value, rules.read_level))
    ]
    return schemas, levels


async def records(store: Store, tenant: str, plural: str) -> AsyncIterator[Record]:
    """Yield a tenant's objects of one kind.

    Raises:
        StoreError: The store cannot be read.
    """
    prefix, after = collection_key(tenant, GROUP, plural), ""
    while True:
        page = await store.range(prefix, after=after, limit=PAGE)
        for record in page.records:
            yield record
        if not page.more:
            return
        after = page.records[-1].key


def _decoded(value: bytes, how: Callable[[bytes], _Read]) -> _Read | None:
    try:
        return how(value)
    except msgspec.ValidationError:
        # Validation refuses such objects. One that was stored nevertheless is ignored.
        return None
