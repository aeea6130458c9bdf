"""Fences the ledger at the start of a term: writes of earlier leaders that are still in flight fail afterwards."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import structlog

from vcsync.api import names
from vcsync.kube.errors import Conflict, KubeError, NotFound, describe
from vcsync.objects.envelope import Envelope

CONCURRENCY = 32
"""Number of entries that are stamped concurrently."""
_RETRY_SECONDS = 1.0

_log = structlog.get_logger(__name__)


class NotLeading(Exception):
    """Another process may hold the lease by now, so nothing was sent."""


class FencedLedger(Protocol):
    """The requests of stamping to the meta cluster."""

    async def read(self, namespace: str, name: str) -> Envelope:
        """Read an entry past all caches."""
        ...

    async def patch(self, namespace: str, name: str, change: dict[str, Any]) -> Envelope:
        """Patch an entry, which must still be in the version that the patch names."""
        ...

    @property
    def seen(self) -> Callable[[Envelope], None]:
        """Takes every entry of an answer."""
        ...

    @property
    def gone(self) -> Callable[[str, str, str], None]:
        """Takes namespace, name and UID of every entry that no longer exists."""
        ...

    @property
    def still_held(self) -> Callable[[], bool]:
        """Returns whether this process certainly holds the lease."""
        ...


async def stamp_all(entries: Iterable[Envelope], term: str, ledger: FencedLedger) -> None:
    """Write the term into every entry, which gives each a new version.

    Every write to the ledger names the version that the decision was based on. Afterwards all versions that an earlier
    leader can know are outdated.

    Args:
        entries: the whole ledger, read from the store after the lease was acquired, past all caches.
        term: unique name of the term.
        ledger: the meta cluster.
    """
    left = iter(entries)

    async def work() -> None:
        for entry in left:
            await _stamp(entry, term, ledger)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONCURRENCY):
            tasks.create_task(work())


async def _stamp(entry: Envelope, term: str, ledger: FencedLedger) -> None:
    """Stamp one entry, however often it changes meanwhile. A deleted entry needs no stamp."""
    while entry.annotations.get(names.LEDGER_TERM) != term:
        if not ledger.still_held():  # the lease was lost: the term is about to be cancelled
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        metadata = {"resourceVersion": entry.resource_version, "annotations": {names.LEDGER_TERM: term}}
        try:
            entry = await ledger.patch(entry.namespace, entry.name, {"metadata": metadata})
        except NotFound:
            ledger.gone(entry.namespace, entry.name, entry.uid)
            return
        except Conflict:  # a late write of an earlier leader, or a syncer's
            newer = await _read(entry, ledger)
            if newer is None:
                return
            entry = newer
        except KubeError as error:
            _log.warning("ledger entry not fenced", placement=entry.key, **describe(error))
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            ledger.seen(entry)


async def _read(entry: Envelope, ledger: FencedLedger) -> Envelope | None:
    """Read the newest version of an entry. Return the old one if that fails, None if the entry is gone."""
    try:
        newer = await ledger.read(entry.namespace, entry.name)
    except NotFound:
        ledger.gone(entry.namespace, entry.name, entry.uid)
        return None
    except KubeError as error:
        _log.warning("ledger entry not fenced", placement=entry.key, **describe(error))
        await asyncio.sleep(_RETRY_SECONDS)
        return entry
    ledger.seen(newer)
    return newer
