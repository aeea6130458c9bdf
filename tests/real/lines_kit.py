"""Connections to API servers that a test cuts, holds and mends: proxies in a thread of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hack.testbed import Cluster
from hack.testbed.faultproxy import FaultProxy
from hack.testbed.faults import Fault

T = TypeVar("T")

ANSWER_SECONDS = 60.0


class Lines:
    """Runs proxies. They forward TLS as it is, so that certificates stay those of the servers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._proxies: list[FaultProxy] = []

    def __enter__(self) -> Lines:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for proxy in self._proxies:
            self.do(proxy.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def lay(self, cluster: Cluster) -> Line:
        """Return a new connection to a cluster."""

        async def begin() -> FaultProxy:
            return await cluster.proxy(self._folder, tcp=True).__aenter__()

        proxy = self.do(begin())
        self._proxies.append(proxy)
        return Line(self, proxy)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread of the proxies, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_SECONDS)


class Line:
    """The connection of all clients of one kubeconfig to a cluster. The test itself reaches the cluster besides it."""

    def __init__(self, lines: Lines, proxy: FaultProxy) -> None:
        self._lines = lines
        self._proxy = proxy
        self.kubeconfig = proxy.kubeconfig
        self.url = f"https://127.0.0.1:{proxy.port}"

    def cut(self) -> None:
        """Reset what is open, and refuse the rest."""

        async def end() -> None:
            self._proxy.refuse()
            self._proxy.cut()

        self._lines.do(end())

    def mend(self) -> None:
        """Accept connections again, after `cut`."""
        self._lines.do(self._proxy.accept())

    @contextmanager
    def down(self) -> Iterator[None]:
        """Cut the connection until the block ends."""
        self.cut()
        try:
            yield
        finally:
            self.mend()

    @contextmanager
    def suffering(self, fault: Fault) -> Iterator[None]:
        """Let a fault apply to all connections until the block ends."""

        async def begin() -> object:
            return self._proxy.inject(fault)

        async def end() -> None:
            self._proxy.lift()

        self._lines.do(begin())
        try:
            yield
        finally:
            self._lines.do(end())
