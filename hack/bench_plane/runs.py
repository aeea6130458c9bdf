"""The measurements of each side."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from hack.bench_plane.load import (
    CONFIG_MAPS,
    NAMESPACE,
    PODS,
    Ask,
    Figure,
    Refused,
    Target,
    cpu_seconds,
    measure,
    pod,
    session,
)

CLIENTS = (1, 16)
_MERGE = "application/merge-patch+json"

Operation = Callable[[Ask, int], Awaitable[object]]


async def prepare(target: Target) -> None:
    """Create the namespace, and warm the server up."""
    async with session(target, 4) as ask:
        with suppress(Refused):
            await ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            account = {"metadata": {"name": "default"}}
            await ask("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
        for number in range(200):
            await ask("POST", CONFIG_MAPS, {"metadata": {"name": f"warm-{number}"}, "data": {"k": "v"}})


async def operations(target: Target, pods: int) -> dict[str, Figure]:
    """Create, get, patch and list Pods with 1 and 16 clients; `pods` exist at the end."""
    found: dict[str, Figure] = {}
    single = pods // 5
    shares = {1: (0, single), 16: (single, pods - single)}
    for clients in CLIENTS:
        offset, count = shares[clients]
        found[f"create, {clients} clients"] = await measure(target, count, clients, create(offset))
    for clients in CLIENTS:
        found[f"get, {clients} clients"] = await measure(target, 2000, clients, get(pods))
        found[f"patch, {clients} clients"] = await measure(target, 1000, clients, patch(pods, clients))
        found[f"list {pods} Pods, {clients} clients"] = await measure(target, 20, clients, _list)
    return found


def create(offset: int) -> Operation:
    """Create Pods with numbers from `offset` on."""

    async def create(ask: Ask, number: int) -> None:
        await ask("POST", PODS, pod(f"pod-{offset + number}"))

    return create


def get(pods: int) -> Operation:
    """Get this number of Pods, one after the other."""

    async def get(ask: Ask, number: int) -> None:
        await ask("GET", f"{PODS}/pod-{number % pods}")

    return get


def patch(pods: int, clients: int) -> Operation:
    """Label this number of Pods, one after the other; `clients` makes the labels of each run different."""

    async def patch(ask: Ask, number: int) -> None:
        change = {"metadata": {"labels": {"at": f"{clients}-{number}"}}}
        await ask("PATCH", f"{PODS}/pod-{number % pods}", change, _MERGE)

    return patch


async def _list(ask: Ask, _: int) -> None:
    await ask("GET", PODS)


async def fan_out(target: Target, watchers: int, writes: int) -> Figure:
    """Watch with `watchers` clients while ConfigMaps are written; the result is per delivered event."""
    opened = 0

    def one_more() -> None:
        nonlocal opened
        opened += 1

    async with session(target, 0) as ask, asyncio.TaskGroup() as tasks:
        listed = await ask("GET", f"{CONFIG_MAPS}?limit=1")
        version = listed.partition(b'"resourceVersion":"')[2].partition(b'"')[0].decode()
        path = f"{CONFIG_MAPS}?watch=1&resourceVersion={version}"
        watching = [tasks.create_task(ask.lines(path, writes, one_more)) for _ in range(watchers)]
        while opened < watchers:  # noqa: ASYNC110 - only waits for the answers to begin
            await asyncio.sleep(0.05)
        before, begin = cpu_seconds(target.pids), time.perf_counter()
        for number in range(writes):
            await ask(
                "POST", CONFIG_MAPS, {"metadata": {"name": f"event-{number}"}, "data": {"k": "v" * 500}}
            )
        await asyncio.gather(*watching)
        elapsed = time.perf_counter() - begin
        spent = cpu_seconds(target.pids) - before
    delivered = watchers * writes
    return Figure(delivered / elapsed, 0.0, 0.0, 1000 * spent / delivered)
