"""Fences the ledger at the start of a term: no write of an earlier leader that is still on its way can land afterwards."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import structlog
from msgspec import Struct

from vcsync.api import names
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import Conflict, KubeError, NotFound, describe

AT_ONCE = 32
"""How many entries are stamped at the same time."""
_RETRY_SECONDS = 1.0

_log = structlog.get_logger(__name__)


class NotLeading(Exception):
    """The lease may be another's by now: nothing was sent."""


class LedgerDoor(Struct, frozen=True):
    """What stamping needs of the meta cluster.

    `read(namespace, name)`: past all caches. `patch(namespace, name, patch)`: refused unless the entry is still in the version
    that the patch names. `seen(entry)` and `gone(namespace, name, uid)` hear of every answer. `sure()`: whether the lease is
    certainly ours.
    """

    read: Callable[[str, str], Awaitable[Envelope]]
    patch: Callable[[str, str, dict[str, Any]], Awaitable[Envelope]]
    seen: Callable[[Envelope], None]
    gone: Callable[[str, str, str], None]
    sure: Callable[[], bool]


async def stamp_all(entries: Iterable[Envelope], term: str, door: LedgerDoor) -> None:
    """Write the term into every entry, which makes a new version of each; returns when none is left.

    Every write to the ledger names the version that it was decided by. After this, all versions that an earlier leader
    can know of are outdated.

    Args:
        entries: the whole ledger, read from the store after the lease was acquired, past all caches.
        term: what tells this term from all others.
        door: the meta cluster.
    """
    left = iter(entries)

    async def work() -> None:
        for entry in left:
            await _stamp(entry, term, door)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(work())


async def _stamp(entry: Envelope, term: str, door: LedgerDoor) -> None:
    """Stamp one entry, however often it changes meanwhile; one that is gone needs no stamp."""
    while entry.annotations.get(names.LEDGER_TERM) != term:
        if not door.sure():  # it was ours a moment ago: the term is about to be cancelled
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        metadata = {"resourceVersion": entry.resource_version, "annotations": {names.LEDGER_TERM: term}}
        try:
            entry = await door.patch(entry.namespace, entry.name, {"metadata": metadata})
        except NotFound:
            door.gone(entry.namespace, entry.name, entry.uid)
            return
        except Conflict:  # a late write of an earlier leader, or a syncer's
            newer = await _read(entry, door)
            if newer is None:
                return
            entry = newer
        except KubeError as error:
            _log.warning("ledger entry not fenced", placement=entry.key, **describe(error))
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            door.seen(entry)


async def _read(entry: Envelope, door: LedgerDoor) -> Envelope | None:
    """Read what an entry has become; the old one if that fails, None if it is gone."""
    try:
        newer = await door.read(entry.namespace, entry.name)
    except NotFound:
        door.gone(entry.namespace, entry.name, entry.uid)
        return None
    except KubeError as error:
        _log.warning("ledger entry not fenced", placement=entry.key, **describe(error))
        await asyncio.sleep(_RETRY_SECONDS)
        return entry
    door.seen(newer)
    return newer
