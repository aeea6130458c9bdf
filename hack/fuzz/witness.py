"""The other tenant: its objects, and an open watch on them."""

import asyncio
import json
import ssl
import time
from typing import Any

from hack.fuzz.client import Client
from hack.fuzz.judge import MARK
from hack.fuzz.request import http

PLACES: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/default/configmaps": {"data": {"a": MARK.decode()}},
    "/api/v1/namespaces/default/secrets": {"stringData": {"a": MARK.decode()}},
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": {"rules": []},
    "/api/v1/namespaces/default/services": {"spec": {"ports": [{"port": 80}]}},
}
COUNT = 5
UNLOADED = 300
"""Number of reads before the run, which measure the latency of an idle server."""
PAUSE_SECONDS = 0.05


class Witness:
    """Creates the other tenant's objects before a run and compares them after it.

    Attributes:
        quiet: seconds of its reads before the run.
        loaded: seconds of its reads during the run.
    """

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        """Store the server's port and the TLS settings of the tenant's admin."""
        self._port, self._tls = port, tls
        self._client = Client(port, tls, 30)
        self._reader = Client(port, tls, 30)
        self._before: dict[str, bytes] = {}
        self._seen = b""
        self._watching: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.quiet: list[float] = []
        self.loaded: list[float] = []

    async def prepare(self) -> None:
        """Create the objects and start the watch."""
        for place, rest in PLACES.items():
            for at in range(COUNT):
                made: dict[str, Any] = {
                    "metadata": {"name": f"w{at}", "annotations": {"mark": MARK.decode()}},
                    **rest,
                }
                answer = await self._client.send(
                    http(0, "POST", place, {"Content-Type": "application/json"}, json.dumps(made).encode())
                )
                if answer.status != 201:
                    raise RuntimeError(f"the other tenant cannot create {place}: {answer.body!r}")
        self._before = await self._objects()
        version = json.loads(self._before["/api/v1/namespaces/default/configmaps"])["metadata"][
            "resourceVersion"
        ]
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls)
        target = f"/api/v1/configmaps?watch=1&resourceVersion={version}&timeoutSeconds=86400"
        self._writer.write(http(0, "GET", target, {"Accept": "application/json"}, None).pieces[0])
        await reader.readuntil(b"\r\n\r\n")
        self._watching = asyncio.create_task(self._watch(reader))
        for _ in range(UNLOADED):
            self.quiet.append(await self._read())

    async def measure(self) -> None:
        """Read an object every `PAUSE_SECONDS` until cancelled."""
        while True:
            self.loaded.append(await self._read())
            await asyncio.sleep(PAUSE_SECONDS)

    async def _read(self) -> float:
        began = time.monotonic()
        place = "/api/v1/namespaces/default/configmaps/w0"
        await self._reader.send(http(0, "GET", place, {"Accept": "application/json"}, None))
        return time.monotonic() - began

    async def problems(self) -> list[str]:
        """Return the changes that the tenant has noticed; normally none."""
        found = []
        after = await self._objects()
        for place, before in self._before.items():
            if _items(after[place]) != _items(before):
                found.append(f"the other tenant's objects at {place} have changed")
        if self._seen:
            found.append(f"the other tenant's watch saw {self._seen[:300]!r}")
        if self._watching is None or self._watching.done():
            found.append("the other tenant's watch was ended")
        return found

    async def close(self) -> None:
        """Stop watching."""
        if self._watching is not None:
            self._watching.cancel()
        if self._writer is not None:
            self._writer.close()
        await self._client.close()
        await self._reader.close()

    async def _objects(self) -> dict[str, bytes]:
        return {
            place: (await self._client.send(http(0, "GET", place, {"Accept": "application/json"}, None))).body
            for place in PLACES
        }

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        while read := await reader.read(65536):
            self._seen += read


def _items(answer: bytes) -> bytes:
    """Return the bytes after a list's metadata, which contains the revision that all tenants share."""
    return answer.partition(b'"items":')[2]
