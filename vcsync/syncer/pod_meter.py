"""Meters the Pods of tenants in a super cluster, and keeps the sums in ConfigMaps of the meta cluster, one for each hour.

Each ConfigMap says up to which time it counts. A syncer continues where the last write ended, and writes the sums and that
time in one object, only if nobody else has written it. So no time is counted twice, whatever fails.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import structlog
from msgspec import Struct, field

from vcsync.api import names
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import KubeError, NotFound
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.objects.envelope import Envelope
from vcsync.syncer.pod_spans import HOUR, Span, Totals, add, decode, encode, hour_text, pieces, span_of

WRITE_SECONDS = 10.0
"""Seconds between two writes."""

LAG = 5_000
"""Milliseconds that the sums are behind, so that the starts and ends of Pods have been seen."""

KEPT = 62 * 24 * HOUR
"""Milliseconds for which ConfigMaps are kept, like the rows of an embedded control plane."""

STEP = 1000
"""Pods that are added up before other tasks run."""

MAX_ENDED = 100_000
"""Ended Pods that wait for a write. Beyond that the oldest are not counted."""

_log = structlog.get_logger(__name__)


class _Rest(Struct):
    data: dict[str, str] = field(default_factory=dict)


class PodMeter:
    """The meter of one syncer.

    Args:
        meta: Client of the meta cluster.
        super_id: Id of the super cluster.
        shard: (number, count) of the shard of tenants.
        owns: Tells whether a tenant, by its cluster key, belongs to the shard.
        clock: Returns seconds since the epoch.
    """

    def __init__(
        self,
        *,
        meta: Client,
        super_id: str,
        shard: tuple[int, int],
        owns: Callable[[str], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._meta = meta
        self._super_id = super_id
        self._shard = shard
        self._owns = owns
        self._clock = clock
        self._running: dict[str, Span] = {}
        self._ended: list[Span] = []
        self._until = 0
        self._failing = False

    def observe(self, change: Change) -> None:
        """Apply a change of a Pod in the super cluster."""
        now = round(self._clock() * 1000)
        pod = change.new if change.new is not None else change.old
        if pod is None:
            return
        before = self._running.pop(pod.uid, None)
        if change.new is None:
            if before is not None and before.end is None:
                before = msgspec.structs.replace(before, end=max(before.begin, now))
            if before is not None:
                self._ended.append(before)
            return
        # A Pod that has ended when it is first seen may have ended long ago.
        ended = 0 if before is None else now if before.end is None else before.end
        try:
            span = span_of(pod, ended)
        except (ValueError, msgspec.MsgspecError) as error:
            _log.warning("a pod cannot be metered", pod=f"{pod.namespace}/{pod.name}", error=str(error))
            return
        if span is not None and self._owns(span.tenant):
            self._running[pod.uid] = span

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self.write()
            await asyncio.sleep(WRITE_SECONDS)

    async def write(self) -> None:
        """Add what Pods took since the last write. What cannot be written now is counted by the next call."""
        try:
            await self._write(round(self._clock() * 1000) - LAG)
        except (KubeError, msgspec.MsgspecError) as error:
            # The write may have had its effect: the next call reads up to which time is counted.
            self._until = 0
            self._ended = self._ended[-MAX_ENDED:]
            if not self._failing:
                _log.warning(
                    "the time of Pods cannot be recorded; trying again",
                    super_cluster=self._super_id,
                    error=str(error),
                )
            self._failing = True
            return
        self._failing = False

    async def _write(self, now: int) -> None:
        if not self._until:
            self._until = await self._counted_until() or await self._begin(now)
        for begin, end in pieces(self._until, now):
            name, current = await self._current(begin)
            totals: Totals = {} if current is None else decode(_data(current))
            spans = [*self._running.values(), *self._ended]
            for at in range(0, len(spans), STEP):
                add(totals, spans[at : at + STEP], begin, end)
                await asyncio.sleep(0)
            await self._put(name, current, totals, end)
            self._until = end
            if current is None:
                await self._remove_old(now)
        self._ended = [each for each in self._ended if each.end is None or each.end > self._until]

    async def _begin(self, now: int) -> int:
        """Record that counting begins now, and return that time."""
        name, _ = await self._current(now)
        await self._put(name, None, {}, now)
        return now

    async def _counted_until(self) -> int:
        """Return up to which time the tenants of this shard are counted. 0: counting has not begun.

        The other shards of the same number have other tenants. With another number of shards, any of them may have had the same.
        """
        number, count = self._shard
        others = [f"{self._super_id}.{each}-{count}." for each in range(1, count + 1) if each != number]
        found = [each for each in await self._recorded() if not each.name.startswith(tuple(others))]
        return max((_until(each) for each in found), default=0)

    async def _remove_old(self, now: int) -> None:
        for each in await self._recorded():
            if 0 < _until(each) < now - KEPT:
                await self._meta.delete(CONFIG_MAPS, each.name, names.USAGE_NAMESPACE)

    async def _recorded(self) -> Sequence[Envelope]:
        selector = f"{names.USAGE_OF}={self._super_id}"
        client = self._meta.metadata_only()
        return await client.list(CONFIG_MAPS, names.USAGE_NAMESPACE, label_selector=selector)

    async def _current(self, begin: int) -> tuple[str, Envelope | None]:
        number, count = self._shard
        name = f"{self._super_id}.{number}-{count}.{hour_text(begin)}"
        try:
            found = await self._meta.get(CONFIG_MAPS, name, names.USAGE_NAMESPACE)
        except NotFound:
            return name, None
        if _until(found) > begin:
            raise KubeError(f"{name}: another syncer has counted up to {_until(found)}")
        return name, found

    async def _put(self, name: str, current: Envelope | None, totals: Totals, until: int) -> None:
        metadata: dict[str, Any] = {
            "name": name,
            "labels": {names.USAGE_OF: self._super_id},
            "annotations": {names.COUNTED_UNTIL: str(until)},
        }
        body = {"metadata": metadata, "data": encode(totals)}
        if current is None:
            await self._meta.create(CONFIG_MAPS, body, names.USAGE_NAMESPACE)
            return
        metadata["resourceVersion"] = current.resource_version
        await self._meta.patch(CONFIG_MAPS, name, body, names.USAGE_NAMESPACE)


def _data(found: Envelope) -> dict[str, str]:
    return msgspec.json.decode(found.rest, type=_Rest).data if found.rest else {}


def _until(found: Envelope) -> int:
    text = found.annotations.get(names.COUNTED_UNTIL, "")
    return int(text) if text.isdecimal() else 0
