"""A run of inputs that grow: reports those whose cost in processor time grows faster than they do."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random

from hack.embedded import ControlPlane
from hack.fuzz import growth, growth_custom
from hack.fuzz.client import Client, HangError
from hack.fuzz.growth import FACTOR, Growth
from hack.fuzz.request import http
from hack.fuzz.run import credentials

BOUND_SECONDS = 30.0
SUPERLINEAR = 1.6
"""A cost is superlinear if it grows by more than this power of the input's growth."""
NOTICED_SECONDS = 0.015
"""Least processor time of the larger input that counts."""
REPEATS = 4
"""Measurements of a suspicious input; the least time of each size counts."""


@dataclass
class Grown:
    """The result of a run."""

    tried: int = 0
    all: int = 0
    seconds: float = 0.0
    dearest: tuple[float, str] = (0.0, "")
    findings: list[str] = field(default_factory=list)


def growths(ruled: Mapping[str, str], seed: int, only: str) -> list[Growth]:
    """Return all growths in a random order.

    Args:
        ruled: The fields with rules of the custom resource.
        seed: Of the order.
        only: Part of the names of those that are wanted.
    """
    everything = chain(
        growth.of_kinds(),
        growth.of_requests(),
        growth_custom.of_objects(ruled),
        growth_custom.of_expressions(),
    )
    found = [each for each in everything if only in each.name]
    Random(seed).shuffle(found)  # noqa: S311 - no secret
    return found


async def run(folder: Path, seconds: float, seed: int, only: str, progress: Callable[[Grown], None]) -> Grown:
    """Start a control plane in a folder and send inputs that grow, until the time is over or all were sent.

    Args:
        folder: An empty folder.
        seconds: Time limit.
        seed: Of the order.
        only: Part of the names of the inputs to send.
        progress: Called every 1,000 inputs.
    """
    found, began = Grown(), time.monotonic()
    with ControlPlane(folder) as plane:
        tls = credentials(plane.create("grown", "--controllers", "external"))
        client = Client(plane.port, tls, BOUND_SECONDS)
        ruled = await _define(client)
        everything = growths(ruled, seed, only)
        found.all = len(everything)
        for each in everything:
            if time.monotonic() - began > seconds:
                break
            try:
                problem = await _grow(client, plane.pid, each, found)
            except HangError as error:
                problem = str(error)
            found.tried += 1
            found.seconds = time.monotonic() - began
            if problem:
                found.findings.append(f"{each.name}: {problem}")
            if found.tried % 1000 == 0:
                progress(found)
        await client.close()
    return found


async def _define(client: Client) -> dict[str, str]:
    """Create the definition with each rule that the server accepts; returns these rules."""
    ruled = {}
    for key, rule in growth_custom.functions().items():
        answer = await _post(
            client, f"{growth_custom.DEFINITIONS}?dryRun=All", growth_custom.definition({key: rule})
        )
        if answer == 201:
            ruled[key] = rule
    if await _post(client, growth_custom.DEFINITIONS, growth_custom.definition(ruled)) != 201 or not ruled:
        raise RuntimeError("the definition of the resource that grows was refused")
    await asyncio.sleep(1)  # until it is served
    return ruled


async def _post(client: Client, target: str, body: object) -> int:
    return (await client.send(http(0, "POST", target, growth.CONTENT, json.dumps(body).encode()))).status


async def _grow(client: Client, pid: int, each: Growth, found: Grown) -> str:
    """Send an input in both sizes; returns the finding about it."""
    large = await _cost(client, pid, each, FACTOR)
    found.dearest = max(found.dearest, (large, each.name))
    if large <= NOTICED_SECONDS:
        return ""
    small = await _cost(client, pid, each, 1)
    for _ in range(REPEATS):
        if not suspicious(small, large):
            return ""
        small, large = (
            min(small, await _cost(client, pid, each, 1)),
            min(large, await _cost(client, pid, each, FACTOR)),
        )
    return (
        f"{FACTOR} times the size takes {large / small:.1f} times the processor time, {1000 * large:.0f} ms"
    )


def suspicious(small: float, large: float) -> bool:
    """Return whether the cost of an input, in seconds for both sizes, grows faster than it."""
    return large > NOTICED_SECONDS and large > small * FACTOR**SUPERLINEAR


async def _cost(client: Client, pid: int, each: Growth, factor: int) -> float:
    """Send an input, and return the processor time that the server takes for it, in seconds."""
    method, target, headers, body = each.request(each.size * factor)
    before = processor_seconds(pid)
    await client.send(http(0, method, target, headers, body))
    return max(processor_seconds(pid) - before, 1e-4)


def processor_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process and of its children, with the precision of the scheduler."""
    children = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return (
        sum(
            int(stat.read_text().split()[0])
            for process in (pid, *children)
            for stat in Path(f"/proc/{process}/task").glob("*/schedstat")
        )
        / 1e9
    )
