"""Reads a tenant's FlowSchemas and PriorityLevelConfigurations from the store."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

import msgspec

from vcsync.controlplane.flow import rules
from vcsync.controlplane.flow.rules import LevelRead, Schema
from vcsync.controlplane.resources import collection_key
from vcsync.controlplane.store.interface import Record, Store

GROUP = "flowcontrol.apiserver.k8s.io"
SCHEMAS, LEVELS = "flowschemas", "prioritylevelconfigurations"
MARK = f"/{GROUP}/"
"""Stands in the keys of both."""
PAGE = 500
_Read = TypeVar("_Read")
MAX_BYTES = 256 * 1024
"""Of a tenant's schemas that are heeded: what it costs to classify a request grows with them."""


async def read(store: Store, tenant: str) -> tuple[Sequence[Schema], Sequence[LevelRead]]:
    """Read what a tenant has, "": nothing; schemas beyond `MAX_BYTES` are not heeded.

    Raises:
        StoreError: it cannot be read.
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
    """Read the objects of one kind.

    Raises:
        StoreError: they cannot be read.
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
        return None  # validation does not let it in; what is there nevertheless is not heeded
