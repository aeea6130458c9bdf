"""Requests as fast as possible, at a given concurrency, and their cost for the server."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from hack.bench.meter import percentile
from hack.parity.ask import Side

NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Figure:
    """Cost of one operation on one side: requests per second, latencies in ms, server CPU per request in ms."""

    rate: float
    p50: float
    p99: float
    cpu: float


@dataclass(frozen=True)
class Target:
    """A server under load: its address, and the processes whose CPU counts for it."""

    side: Side
    pids: Sequence[int]


class Refused(Exception):
    """The server answered with an error; the text contains the answer."""


@asynccontextmanager
async def session(target: Target, connections: int) -> AsyncIterator[Ask]:
    """Return a client as the side's administrator."""
    admin = target.side.users["admin"]
    headers = {"Accept": "application/json"}
    if admin.token:
        headers["Authorization"] = f"Bearer {admin.token}"
    connector = aiohttp.TCPConnector(ssl=admin.context, limit=connections)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as client:
        yield Ask(client, target.side.url)


class Ask:
    """Sends requests to one server."""

    def __init__(self, client: aiohttp.ClientSession, url: str) -> None:
        self._client = client
        self._url = url

    async def __call__(
        self, verb: str, path: str, body: Any = None, content: str = "application/json"
    ) -> bytes:
        """Send one request and read the whole answer.

        Raises:
            Refused: the status is not 2xx.
        """
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": content} if data is not None else None
        async with self._client.request(verb, self._url + path, data=data, headers=headers) as response:
            answer = await response.read()
            if response.status >= 300:
                raise Refused(f"{verb} {path}: {response.status} {answer[:300]!r}")
            return answer

    async def size(self, path: str) -> int:
        """Read an answer as it comes; return the number of its bytes.

        Raises:
            Refused: the status is not 200.
        """
        async with self._client.get(self._url + path, timeout=aiohttp.ClientTimeout(total=None)) as response:
            if response.status != 200:
                raise Refused(f"GET {path}: {response.status} {await response.text()}")
            return sum([len(piece) async for piece in response.content.iter_any()])

    async def lines(self, path: str, count: int, opened: Callable[[], None]) -> None:
        """Read `count` lines of a watch; calls `opened` when the answer has started."""
        async with self._client.get(self._url + path, timeout=aiohttp.ClientTimeout(total=None)) as response:
            if response.status != 200:
                raise Refused(f"GET {path}: {response.status} {await response.text()}")
            opened()
            seen = 0
            async for piece in response.content.iter_any():
                seen += piece.count(b"\n")
                if seen >= count:
                    return


def cpu_seconds(pids: Sequence[int]) -> float:
    """Return user and system time of processes since their start."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


@dataclass(frozen=True)
class Flow:
    """Bytes that flowed, the seconds that it took, and seconds of CPU of the servers."""

    size: int
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        """Megabytes per second."""
        return self.size / 1e6 / self.seconds


async def measure(
    target: Target, requests: int, clients: int, one: Callable[[Ask, int], Awaitable[object]]
) -> Figure:
    """Call `one(ask, number)` for every number below `requests`, `clients` concurrently."""
    latencies: list[float] = []
    numbers = iter(range(requests))

    async with session(target, clients) as ask:

        async def client() -> None:
            for number in numbers:
                begin = time.perf_counter()
                await one(ask, number)
                latencies.append(1000 * (time.perf_counter() - begin))

        before, begin = cpu_seconds(target.pids), time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(clients):
                tasks.create_task(client())
        elapsed = time.perf_counter() - begin
        spent = cpu_seconds(target.pids) - before
    return Figure(
        requests / elapsed, percentile(latencies, 0.5), percentile(latencies, 0.99), 1000 * spent / requests
    )


def pod(name: str) -> dict[str, Any]:
    """Return a Pod of about 1 kB as sent."""
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        "env": [{"name": f"VARIABLE_{number}", "value": "x" * 20} for number in range(8)],
        "ports": [{"containerPort": 8080}],
    }
    metadata = {"name": name, "labels": {"app": "bench", "part": name[-1]}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
