"""Migrates the keys of the store to the current layout, once, before the server starts."""

from collections.abc import Iterable

import msgspec
import structlog

from vcsync.apimachinery.crd.shadowing import is_builtin
from vcsync.apimachinery.resources import collection_key, custom_group
from vcsync.apiserver.storage.interface import Compare, Delete, Put, Record, Store
from vcsync.apiserver.tenants.records import LAYOUT

CURRENT = b"2"
"""Layout 1 stored custom objects under their group; layout 2 stores them under a segment of their own."""
PAGE = 500
"""Objects that are read from the store at once."""
_DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
_log = structlog.get_logger(__name__)


class _Names(msgspec.Struct):
    plural: str


class _Spec(msgspec.Struct):
    group: str
    names: _Names


class _Definition(msgspec.Struct):
    spec: _Spec


_definitions = msgspec.json.Decoder(_Definition)


async def migrate(store: Store, tenants: Iterable[str]) -> int:
    """Move objects from the keys of earlier layouts. An interrupted migration continues at the next start.

    Args:
        store: The store. No process with an earlier version may be using it.
        tenants: All tenants.

    Returns:
        The number of objects moved.

    Raises:
        StoreError: The store cannot be read or written.
    """
    record, _ = await store.get(LAYOUT)
    if record is not None and record.value == CURRENT:
        return 0
    moved = 0
    for tenant in tenants:
        page = await store.range(collection_key(tenant, *_DEFINITIONS))
        for each in page.records:
            try:
                spec = _definitions.decode(each.value).spec
            except msgspec.MsgspecError as error:
                # Such a definition is not served. It must not keep the server from starting.
                _log.error("a stored definition cannot be read", key=each.key, error=str(error))
                continue
            # Custom objects among built-in ones cannot be told apart from them, so they stay.
            if not is_builtin(spec.group, spec.names.plural):
                moved += await _move(store, tenant, spec.group, spec.names.plural)
    await store.txn([Compare(LAYOUT, record.revision if record else 0)], [Put(LAYOUT, CURRENT)])
    if moved:
        _log.info("moved custom objects to keys of their own", objects=moved)
    return moved


async def _move(store: Store, tenant: str, group: str, plural: str) -> int:
    old, new = collection_key(tenant, group, plural), collection_key(tenant, custom_group(group), plural)
    after, moved = "", 0
    while True:
        page = await store.range(old, after=after, limit=PAGE)
        for record in page.records:
            moved += await _move_one(store, record, new + record.key.removeprefix(old))
        if not page.more:
            return moved
        after = page.records[-1].key


async def _move_one(store: Store, record: Record, key: str) -> bool:
    compares = [Compare(record.key, record.revision), Compare(key, 0)]
    return (await store.txn(compares, [Delete(record.key), Put(key, record.value)])).done
