"""Watches every tenant and super cluster during the whole run for data that belongs to another tenant."""

import asyncio
import contextlib
import json
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import aiohttp

from hack.testbed.cluster import Cluster

KINDS = (
    "namespaces",
    "pods",
    "configmaps",
    "secrets",
    "serviceaccounts",
    "services",
    "endpoints",
    "nodes",
    "events",
)
WATCH_SECONDS = 300
LONGEST_LINE = 4 * 1024 * 1024


@dataclass(frozen=True)
class Sighting:
    """Data of one tenant that was visible to another tenant."""

    where: str
    kind: str
    owner: str
    """The tenant that could see it."""
    other: str
    """The tenant whose text it contains."""
    line: str


def sighted(line: bytes, owner: str, marks: Mapping[str, Iterable[bytes]]) -> str | None:
    """Return the tenant other than `owner` whose mark the line contains; None if there is none."""
    for other, texts in marks.items():
        if other != owner and any(text in line for text in texts):
            return other
    return None


def owner_of(line: bytes, keys: Mapping[str, str]) -> str | None:
    """Return the tenant of the super namespace that a watch event concerns; None if there is none.

    Args:
        line: the event.
        keys: prefix of the names of super namespaces -> tenant.
    """
    metadata = json.loads(line)["object"]["metadata"]
    place = metadata.get("namespace") or metadata.get("name", "")
    return next((tenant for start, tenant in keys.items() if place.startswith(start)), None)


def _always(owner: str) -> Callable[[bytes], str]:
    return lambda _: owner


class Spy:
    """Watches all kinds that may contain tenants' data.

    Args:
        tenants: name -> control plane.
        supers: id -> super cluster.
        keys: tenant's name -> cluster key.
        marks: tenant's name -> texts that only its objects contain.
    """

    def __init__(
        self,
        tenants: Mapping[str, Cluster],
        supers: Mapping[str, Cluster],
        *,
        keys: Mapping[str, str],
        marks: Mapping[str, Iterable[str]],
    ) -> None:
        self._tenants = tenants
        self._supers = supers
        self._starts = {f"{key}-": name for name, key in keys.items()}
        self._marks = {name: tuple(text.encode() for text in texts) for name, texts in marks.items()}
        self.sightings: list[Sighting] = []
        self.looked_at: Counter[str] = Counter()
        """Events by cluster."""

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for name, cluster in self._tenants.items():
                for kind in KINDS:
                    tasks.create_task(self._watch(cluster, kind, _always(name)))
            for cluster in self._supers.values():
                for kind in KINDS[:-2]:
                    tasks.create_task(self._watch(cluster, kind, lambda line: owner_of(line, self._starts)))

    async def _watch(self, cluster: Cluster, kind: str, owner: Callable[[bytes], str | None]) -> None:
        context = ssl.create_default_context(cadata=cluster.ca_pem)
        url = f"{cluster.url}/api/v1/{kind}?watch=1&timeoutSeconds={WATCH_SECONDS}"
        headers = {"Authorization": f"Bearer {cluster.admin_token}"}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=WATCH_SECONDS + 30)
        async with aiohttp.ClientSession(
            headers=headers, timeout=timeout, read_bufsize=LONGEST_LINE
        ) as session:
            while True:
                # A watch without a version starts with all existing objects, so that it misses only objects that
                # were created and deleted between two watches.
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(url, ssl=context) as answer:
                        async for line in answer.content:
                            self._look(cluster.name, kind, line, owner)
                await asyncio.sleep(0.2)

    def _look(self, where: str, kind: str, line: bytes, owner: Callable[[bytes], str | None]) -> None:
        self.looked_at[where] += 1
        if not any(text in line for texts in self._marks.values() for text in texts):
            return
        whose = owner(line)
        if whose is None:
            return
        other = sighted(line, whose, self._marks)
        if other is not None:
            self.sightings.append(Sighting(where, kind, whose, other, line.decode(errors="replace")[:2000]))
