"""The process that owns a node: links it to the machine, and forwards connections to API servers."""

import asyncio
import contextlib
import os
import socket
import subprocess
from functools import partial

from hack.node.plan import NodePlan

CHUNK = 1 << 16
CONNECT_SECONDS = 10.0
PREPARE_SECONDS = 60.0


def run(plan: NodePlan, child: socket.socket, pid: int) -> None:
    """Link the node to the machine, and forward until the node's first process has ended.

    Args:
        plan: of the node.
        child: the other end of the first process's socket.
        pid: of the first process.

    Raises:
        SystemExit: the node could not be prepared; its first process has printed the reason.
    """
    child.settimeout(PREPARE_SECONDS)
    message, descriptors, _, _ = socket.recv_fds(child, 16, len(plan.served_at))
    if not message:
        raise SystemExit("the first process of the node ended before it was prepared")
    ports = [each.machine_port for each in plan.served_at]
    listeners = [(socket.socket(fileno=each), port) for each, port in zip(descriptors, ports, strict=True)]
    _link(plan, pid)
    child.send(b"linked")
    if not child.recv(16):
        raise SystemExit("the first process of the node ended before it was linked")
    unfinished = plan.ready_file.with_suffix(".unfinished")
    unfinished.write_text(str(pid))
    unfinished.replace(plan.ready_file)
    asyncio.run(_forward(listeners, pid))


def _link(plan: NodePlan, pid: int) -> None:
    # A link of this name is left from a node whose namespaces the kernel has not removed yet.
    subprocess.run(["ip", "link", "delete", plan.link], check=False, capture_output=True, timeout=30)
    peer = ("peer", "name", "eth0", "netns", str(pid))
    _ip("link", "add", plan.link, "type", "veth", *peer)
    _ip("address", "add", f"{plan.machine_address}/30", "dev", plan.link)
    _ip("link", "set", plan.link, "up")
    _ip("route", "add", plan.pod_cidr, "via", plan.address, "dev", plan.link)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, timeout=30)


async def _forward(listeners: list[tuple[socket.socket, int]], pid: int) -> None:
    """Forward connections of each listener to its port of the machine, until a process has ended."""
    ended = asyncio.Event()
    descriptor = os.pidfd_open(pid)
    asyncio.get_running_loop().add_reader(descriptor, ended.set)

    async def serve(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The API server may be down, and either side may end a connection at any time.
        with contextlib.suppress(OSError, TimeoutError, ExceptionGroup):
            await _join(reader, writer, port)
        writer.close()

    async with contextlib.AsyncExitStack() as stack:
        for listener, port in listeners:
            await stack.enter_async_context(await asyncio.start_server(partial(serve, port), sock=listener))
        await ended.wait()
        os._exit(0)  # open connections would keep the servers


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Forward one connection to a port of the machine, both ways, until both have ended."""
    async with asyncio.timeout(CONNECT_SECONDS):
        answers, requests = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(reader, requests))
            group.create_task(_copy(answers, writer))
    finally:
        requests.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(CHUNK):
        target.write(data)
        await target.drain()
    target.write_eof()
