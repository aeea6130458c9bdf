"""Watches all clusters during a run and keeps the audit's ledgers of deletions and of copies."""

import asyncio
import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp

from hack.audit.copies import Copies
from hack.audit.deletions import KINDS, Deletions
from hack.audit.read import Kubeconfig
from hack.audit.world import Json, place, placement_of, uid

PLACEMENTS = "namespaceplacements"
SUPER_CLUSTERS = "superclusters"
OURS = (PLACEMENTS, SUPER_CLUSTERS)
PODS = "pods"
WATCH_SECONDS = 300
LIST_SECONDS = 60
LONGEST_LINE = 4 * 1024 * 1024
AGAIN_SECONDS = 0.2


class _Expired(Exception):
    """The watch cannot continue from its last version."""


@dataclass(eq=False)
class Stream:
    """The known objects of one kind in one cluster."""

    cluster: Kubeconfig
    kind: str
    tenant: str = ""
    """Cluster key of the tenant whose control plane the cluster is."""
    super_id: str = ""
    """Or id of the super cluster; the meta cluster has neither."""
    known: dict[str, Json] = field(default_factory=dict)
    """By UID."""
    version: int = 0
    """Resource version of the known state; 0: there is none yet."""
    watching: asyncio.Event = field(default_factory=asyncio.Event)
    work: "asyncio.Task[None] | None" = None

    @property
    def url(self) -> str:
        group = "/apis/tenancy.x-k8s.io/v1alpha1" if self.kind in OURS else "/api/v1"
        return f"{self.cluster.server}{group}/{self.kind}"


class Witness:
    """Follows every kind of every cluster by list and watch, so that gaps in watches do not hide deletions.

    Args:
        meta: the meta cluster.
        tenants: cluster key -> control plane.
        supers: id -> super cluster.
        kinds: plurals of the kinds of tenants and super clusters.
    """

    def __init__(
        self,
        meta: Kubeconfig,
        tenants: Mapping[str, Kubeconfig],
        supers: Mapping[str, Kubeconfig],
        kinds: Sequence[str] = KINDS,
    ) -> None:
        self.deletions = Deletions()
        self.copies = Copies()
        streams = [Stream(meta, kind) for kind in OURS]
        for kind in kinds:
            streams += [Stream(cluster, kind, tenant=key) for key, cluster in tenants.items()]
            streams += [Stream(cluster, kind, super_id=name) for name, cluster in supers.items()]
        self._streams = streams
        for stream in streams:
            stream.watching.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for stream in self._streams:
                tasks.create_task(self._follow(stream))

    async def finish(self) -> None:
        """List everything once more, after `run`: objects that no watch has reported by then still exist.

        The clusters still work while they are listed. Super clusters come before tenants, and placements last, so that
        no effect is recorded without its cause.

        Raises:
            aiohttp.ClientError: a cluster cannot be listed.
        """
        await self._list_all(reversed(self._streams))

    async def pause(self, name: str) -> None:
        """Stop watching a cluster until `resume`, because a fault is about to remove objects.

        Raises:
            aiohttp.ClientError: the cluster cannot be listed for the last time.
        """
        streams = [stream for stream in self._streams if stream.cluster.name == name]
        for stream in streams:
            stream.watching.clear()
            if stream.work is not None:
                stream.work.cancel()
                await asyncio.gather(stream.work, return_exceptions=True)
        await self._list_all(streams)

    async def resume(self, name: str) -> None:
        """Continue after a fault; objects that it removed do not count as deleted.

        Raises:
            aiohttp.ClientError: the cluster cannot be listed.
        """
        streams = [stream for stream in self._streams if stream.cluster.name == name]
        await self._list_all(streams, by_fault=True)
        for stream in streams:
            stream.watching.set()

    # --- implementation

    async def _follow(self, stream: Stream) -> None:
        async with _session(stream) as session:
            while True:
                await stream.watching.wait()
                stream.work = asyncio.create_task(self._list_and_watch(stream, session))
                try:
                    await asyncio.wait({stream.work})
                finally:
                    stream.work.cancel()
                if not stream.work.cancelled():
                    # The task is endless, so that it has failed: raise its exception.
                    stream.work.result()

    async def _list_and_watch(self, stream: Stream, session: aiohttp.ClientSession) -> None:
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                try:
                    if not stream.version:
                        await self._list(stream, session)
                    await self._watch(stream, session)
                except _Expired:
                    await self._list(stream, session)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _list_all(self, streams: Iterable[Stream], *, by_fault: bool = False) -> None:
        for stream in streams:
            async with _session(stream) as session:
                await self._list(stream, session, by_fault=by_fault)

    async def _list(self, stream: Stream, session: aiohttp.ClientSession, *, by_fault: bool = False) -> None:
        timeout = aiohttp.ClientTimeout(total=LIST_SECONDS)
        async with session.get(stream.url, timeout=timeout) as answer:
            answer.raise_for_status()
            found = await answer.json()
        self.listed(stream, found["items"], int(found["metadata"]["resourceVersion"]), by_fault=by_fault)

    async def _watch(self, stream: Stream, session: aiohttp.ClientSession) -> None:
        query = {
            "watch": "1",
            "timeoutSeconds": str(WATCH_SECONDS),
            "allowWatchBookmarks": "true",
            "resourceVersion": str(stream.version),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_read=WATCH_SECONDS + 30)
        async with session.get(stream.url, params=query, timeout=timeout) as answer:
            if answer.status == 410:
                raise _Expired
            answer.raise_for_status()
            async for line in answer.content:
                # The connection was cut within an event, which the next watch repeats.
                if not line.endswith(b"\n"):
                    return
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise _Expired
                self.observed(stream, event)

    def listed(self, stream: Stream, items: Iterable[Json], version: int, *, by_fault: bool = False) -> None:
        """Record a list.

        Args:
            stream: of the cluster and the kind.
            items: objects in the list.
            version: resource version of the list.
            by_fault: whether a fault, and not a deletion, removed the objects that the list no longer contains.
        """
        before, stream.known = stream.known, {}
        present = {uid(found): found for found in items}
        for identity, found in before.items():
            if identity not in present:
                seen = stream.version
                self._gone(stream, found, before=seen, since=seen, until=version, by_fault=by_fault)
        for found in present.values():
            self._exists(stream, found, before=stream.version)
        stream.version = version

    def observed(self, stream: Stream, event: Json) -> None:
        """Record an event of a watch."""
        found = event["object"]
        version = int(found["metadata"]["resourceVersion"])
        if event["type"] == "DELETED":
            stream.known.pop(uid(found), None)
            self._gone(stream, found, before=version - 1, since=version, until=version, by_fault=False)
        elif event["type"] in ("ADDED", "MODIFIED"):
            self._exists(stream, found, before=version - 1)
        stream.version = version

    def _exists(self, stream: Stream, found: Json, *, before: int) -> None:
        """Record an object. It is known to have been as it was recorded last until `before`."""
        stream.known[uid(found)] = found
        at = int(found["metadata"]["resourceVersion"])
        if stream.kind == PLACEMENTS:
            self.deletions.placed(placement_of(found), at)
        elif stream.kind == SUPER_CLUSTERS:
            fenced = bool(found["spec"].get("fenced"))
            self.copies.super_is(place(found)[1], fenced=fenced, at=at, before=before)
        elif stream.tenant:
            self.deletions.tenant_has(stream.tenant, stream.kind, found, at)
            if stream.kind == PODS:
                self.copies.tenant_has(found)
        else:
            self.deletions.super_has(stream.super_id, stream.kind, found, at)
            if stream.kind == PODS:
                self.copies.super_has(stream.super_id, found, at, before)

    def _gone(
        self, stream: Stream, found: Json, *, before: int, since: int, until: int, by_fault: bool
    ) -> None:
        """Record that an object is gone. It is known to have existed until `before`."""
        if stream.super_id and stream.kind == PODS:
            self.copies.super_lost(stream.super_id, found, before)
        if stream.kind in OURS:
            if stream.kind == PLACEMENTS and not by_fault:
                self.deletions.unplaced(*place(found), since)
        elif stream.super_id and by_fault:
            self.deletions.super_forgot(stream.super_id, stream.kind, found)
        elif stream.super_id:
            self.deletions.super_lost(stream.super_id, stream.kind, found, until, since)
        elif not by_fault:
            self.deletions.tenant_lost(stream.tenant, stream.kind, found, since)


def _session(stream: Stream) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        headers=stream.cluster.headers,
        connector=aiohttp.TCPConnector(ssl=stream.cluster.tls()),
        read_bufsize=LONGEST_LINE,
    )
