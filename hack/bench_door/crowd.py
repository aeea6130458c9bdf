"""A quiet tenant's latencies beside very many tenants with open watches. Some of them are greedy."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hack.attacks.quiet import REQUESTS, Latencies, calm, going_on, listen
from hack.attacks.world import VICTIM, World, world
from hack.bench_door import clients
from hack.bench_plane.load import cpu_seconds
from hack.testbed.processes import resident_memory

LIMIT = 2.0
"""Reads per second that a tenant may send."""
TIMES = 50.0
"""Multiple of its limit that a greedy tenant sends."""
ROUNDS = 4
BEGIN_SECONDS = 3.0
"""Time for the greedy tenants to use up their bursts after each pause."""
START_SECONDS = 900.0
_spawn = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Size:
    """The load: numbers of tenants, of open watches of all of them, and of greedy ones among them."""

    tenants: int = 1000
    watches: int = 5000
    greedy: int = 100


@dataclass
class Crowd:
    """The quiet tenant's latencies.

    Attributes:
        here: while the greedy tenants send to its own door.
        elsewhere: while they send to another door of this machine.
        calm: while they do not send.
        sent: answers per second to the greedy tenants here.
        refused: the share of these that is 429.
        busy: share of one processor that its door uses meanwhile.
        memory: bytes by which the door's process grew per open watch.
    """

    here: Latencies = field(default_factory=Latencies)
    elsewhere: Latencies = field(default_factory=Latencies)
    calm: Latencies = field(default_factory=Latencies)
    sent: float = 0.0
    refused: float = 0.0
    busy: float = 0.0
    memory: float = 0.0


def run(folder: Path, size: Size, seconds: float) -> Crowd:
    """Start two doors with the same tenants and watches, and let the greedy tenants send to one, then to the other."""
    found = Crowd()
    options = ("--tenant-limits", f"readsPerSecond={LIMIT:g}", "--max-connection-rate", "0")
    with (
        world(folder / "here", *options) as here,
        world(folder / "elsewhere", *options) as elsewhere,
        contextlib.ExitStack() as stack,
    ):
        greedy = []
        for each in (here, elsewhere):
            each.plane.vcsync("tenant", "set", VICTIM, "--limits", "readsPerSecond=0")
            tenants = _tenants(each, size.tenants)
            before = resident_memory(each.plane.pid)
            stack.enter_context(_watching(each, tenants, size))
            found.memory = (resident_memory(each.plane.pid) - before) / size.watches
            greedy.append(stack.enter_context(_greedy(each, tenants[: size.greedy])))
        _measure(found, here, elsewhere, greedy, seconds / ROUNDS)
    return found


def _measure(
    found: Crowd, here: World, elsewhere: World, greedy: list[tuple[int, clients.Answers]], seconds: float
) -> None:
    (own, answers), (other, _) = greedy
    listen(here.victim, REQUESTS, Latencies(), seconds)
    spent, began, answered, refused = 0.0, 0.0, 0, 0
    for _ in range(ROUNDS):
        calm(here, elsewhere)
        listen(here.victim, REQUESTS, found.calm, seconds)
        with going_on(other):
            time.sleep(BEGIN_SECONDS)
            listen(here.victim, REQUESTS, found.elsewhere, seconds)
        calm(here, elsewhere)
        with going_on(own):
            time.sleep(BEGIN_SECONDS)
            cpu, begin = cpu_seconds([here.plane.pid]), time.monotonic()
            first = answers.answered.value, answers.refused.value
            listen(here.victim, REQUESTS, found.here, seconds)
            spent += cpu_seconds([here.plane.pid]) - cpu
            began += time.monotonic() - begin
            answered += answers.answered.value - first[0]
            refused += answers.refused.value - first[1]
    found.busy, found.sent = spent / began, answered / began
    found.refused = refused / max(1, answered)


def _tenants(found: World, count: int) -> list[str]:
    """Create tenants and return the kubeconfigs of their administrators."""

    def one(number: int) -> str:
        name = f"tenant-{number}"
        made = found.operator.ask("POST", "/vcsync/v1/tenants", {"name": name})
        if made.status != 201:
            raise RuntimeError(f"tenant {name}: {made.status} {made.message}")
        return found.kubeconfig(name)

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, range(count)))


@contextlib.contextmanager
def _watching(found: World, tenants: list[str], size: Size) -> Iterator[None]:
    opened = _spawn.Event()
    each = size.watches // size.tenants
    with _process(clients.watch, found.plane.port, tenants, each, opened) as process:
        _until(opened, process)
        yield


@contextlib.contextmanager
def _greedy(found: World, tenants: list[str]) -> Iterator[tuple[int, clients.Answers]]:
    """Start paused greedy tenants; yields their process's id and the numbers of answers."""
    begun = _spawn.Event()
    answers = clients.Answers(_spawn.Value("q", lock=False), _spawn.Value("q", lock=False))
    with _process(clients.greed, found.plane.port, tenants, LIMIT * TIMES, begun, answers) as process:
        _until(begun, process)
        if process.pid is None:
            raise RuntimeError("the greedy tenants did not start")
        os.kill(process.pid, signal.SIGSTOP)
        yield process.pid, answers


@contextlib.contextmanager
def _process(target: Any, *arguments: Any) -> Iterator[Any]:
    process = _spawn.Process(target=target, args=arguments, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _until(ready: Any, process: Any) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready.wait(1):
        if not process.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the clients did not start")
