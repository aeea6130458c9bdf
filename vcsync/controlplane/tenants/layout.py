"""Brings keys of earlier data to the layout of today, once, before anything is served."""

from collections.abc import Iterable

import msgspec
import structlog

from vcsync.controlplane.crd.shadowing import is_builtin
from vcsync.controlplane.resources import collection_key, custom_group
from vcsync.controlplane.store.interface import Compare, Delete, Put, Record, Store
from vcsync.controlplane.tenants.records import LAYOUT

CURRENT = b"2"
"""Layout 1 had custom objects under their group itself; 2 has them under a segment of their own."""
PAGE = 500
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


async def bring_up_to_date(store: Store, tenants: Iterable[str]) -> int:
    """Move what stands where earlier versions kept it; cut off, it goes on at the next start.

    Args:
        store: of all tenants. No other process may be serving it with an earlier version.
        tenants: all of them.

    Returns:
        how many objects were moved.

    Raises:
        StoreError: the store cannot be read or written.
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
                # Nothing is served of it, and it must not keep all tenants from being served.
                _log.error("a stored definition cannot be read", key=each.key, error=str(error))
                continue
            # What a definition has put among built-in objects cannot be told from them any more, and stays there.
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
