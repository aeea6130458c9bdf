"""Clients of very many tenants, each part in a process of its own: open watches, and greedy requests."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Sequence
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event

from hack.attacks.client import Door
from hack.attacks.world import door

PLACE = "/api/v1/namespaces/default/configmaps"
NICENESS = 19
"""Niceness of the clients, which would normally run on other machines."""
AT_ONCE = 20
"""Number of connections that are opened at once."""
BACKLOG_BYTES = 64 * 1024
"""Bytes of unsent requests after which a greedy tenant skips its turn."""


def watch(port: int, kubeconfigs: Sequence[str], each: int, opened: Event) -> None:
    """Open `each` watches for every tenant, on connections of their own, and keep them open."""
    os.nice(NICENESS)
    asyncio.run(_watch([door(port, text) for text in kubeconfigs], each, opened))


async def _watch(tenants: Sequence[Door], each: int, opened: Event) -> None:
    begin = asyncio.Semaphore(AT_ONCE)

    async def one(tenant: Door) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while True:
            async with begin:
                reader, writer = await _connection(tenant)
                writer.write(tenant.request("GET", f"{PLACE}?watch=1"))
                status = await reader.readline()
            if b" 200 " in status:
                return reader, writer
            writer.close()
            if b" 429 " not in status:
                raise RuntimeError(f"a watch was refused: {status!r}")
            await asyncio.sleep(1)

    async with asyncio.TaskGroup() as tasks:
        connecting = [tasks.create_task(one(tenant)) for tenant in tenants for _ in range(each)]
    opened.set()
    async with asyncio.TaskGroup() as tasks:
        for connection in connecting:
            tasks.create_task(_drain(connection.result()[0]))
    raise RuntimeError("all watches ended")


async def _drain(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


async def _connection(tenant: Door) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        "127.0.0.1", tenant.port, ssl=tenant.tls, server_hostname="127.0.0.1", ssl_handshake_timeout=300
    )


class Answers:
    """Numbers of a process's answers so far, readable from others."""

    def __init__(self, answered: Synchronized[int], refused: Synchronized[int]) -> None:
        self.answered = answered
        self.refused = refused


def greed(port: int, kubeconfigs: Sequence[str], rate: float, begun: Event, answers: Answers) -> None:
    """Send `rate` requests per second for every tenant, each on one connection, whatever the answers are."""
    os.nice(NICENESS)
    asyncio.run(_greed([door(port, text) for text in kubeconfigs], rate, begun, answers))


async def _greed(tenants: Sequence[Door], rate: float, begun: Event, answers: Answers) -> None:
    async with asyncio.TaskGroup() as tasks:
        for tenant in tenants:
            tasks.create_task(_insist(tenant, rate, answers))
        begun.set()


async def _insist(tenant: Door, rate: float, answers: Answers) -> None:
    request = tenant.request("GET", f"{PLACE}/none")
    while True:
        try:
            reader, writer = await _connection(tenant)
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(_send(writer, request, rate))
                while piece := await reader.read(65536):
                    answers.answered.value += piece.count(b"HTTP/1.1 ")
                    answers.refused.value += piece.count(b"HTTP/1.1 429 ")
                sending.cancel()
            writer.close()
        except (OSError, ssl.SSLError):
            await asyncio.sleep(0.1)


async def _send(writer: asyncio.StreamWriter, request: bytes, rate: float) -> None:
    """Send on schedule. Requests of the time in which this process was paused are left out."""
    due = time.monotonic()
    while True:
        now = time.monotonic()
        due = max(due + 1 / rate, now - 1 / rate)
        await asyncio.sleep(due - now)
        if writer.transport.get_write_buffer_size() < BACKLOG_BYTES:
            writer.write(request)
