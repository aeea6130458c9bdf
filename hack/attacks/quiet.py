"""Measures the latencies of a quiet tenant during every attack of another one, and without it in between.

The attacker and its target run on the same machine as the quiet tenant's client. The latencies are therefore measured
a third time while the same attack goes to another control plane on this machine, which shows the influence of the
machine.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hack.attacks import exhaustion
from hack.attacks.client import Answer, Door, read_answer
from hack.attacks.world import ATTACKER, World, door, world
from hack.bench.meter import percentile
from hack.bench_plane.load import cpu_seconds

COLLECTION = "/api/v1/namespaces/default/configmaps"
PLACE = f"{COLLECTION}/kept-0"
READ, LIST, WRITE, CONNECT = "read", "list", "write", "connect"
REQUESTS = (READ, LIST, WRITE, CONNECT)
"""The quiet tenant's requests, in rotation: read a small object, list a few, change one, and read one over a new
connection."""
ADDRESS = "127.0.0.2"
"""The quiet tenant's client address: like other tenants, it has its own."""
NICENESS = 19
"""Niceness of the attacker's client, which would normally run on another machine."""
PAUSE_SECONDS = 0.005
"""Seconds between the quiet tenant's requests."""
AIM = 1.5
"""Maximum aimed ratio of the p99 during an attack to the p99 without it."""
ROUNDS = 4
"""Number of pauses of an attack, so that other load on the machine affects both phases alike, on average."""
CALM_SECONDS, CALM_SHARE, MAX_CALM_SECONDS = 0.1, 0.05, 20.0
"""A paused attack is over when the server's CPU usage is below this share, at the latest after this many seconds."""
DEFAULT_RATE = ("--max-connection-rate", "50")
HEAD = (
    f"{'quiet tenant during':42}{'p50 ms':>8}{'without':>8}{'ratio':>7}{'p99 ms':>8}{'without':>8}{'ratio':>7}"
    f"{'elsewhere':>8}{'ratio':>7}{'worst':>8}{'busy %':>8}{'refused':>8}"
)


@dataclass
class Latencies:
    """The quiet tenant's latencies in ms by kind of request; `refused`: number of answers other than 200."""

    of: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in REQUESTS})
    refused: int = 0

    @property
    def times(self) -> list[float]:
        """All of them."""
        return [each for times in self.of.values() for each in times]

    def at(self, share: float, kind: str = "") -> float:
        """Return a percentile, of one kind or of all."""
        return percentile(self.of[kind] if kind else self.times, share)


@dataclass
class Measured:
    """The result of one attack.

    `elsewhere`: latencies while it goes to another control plane; `busy`: CPU share of the server.
    """

    name: str
    attacked: Latencies = field(default_factory=Latencies)
    unloaded: Latencies = field(default_factory=Latencies)
    elsewhere: Latencies = field(default_factory=Latencies)
    busy: float = 0.0

    def ratio(self, share: float, kind: str = "") -> float:
        """Return the ratio of a percentile during the attack to the one without it."""
        return self.attacked.at(share, kind) / self.unloaded.at(share, kind)

    def own(self, share: float) -> float:
        """Return the ratio of a percentile during the attack to the higher one of the other two measurements.

        The ratio excludes the influence of the machine.
        """
        return self.attacked.at(share) / max(self.elsewhere.at(share), self.unloaded.at(share))


def run(seconds: float, names: Sequence[str], kinds: Sequence[str], *arguments: str) -> list[Measured]:
    """Measure each attack for some seconds: without it, during it, and while it goes to another control plane."""
    with (
        tempfile.TemporaryDirectory(prefix="vcsync-attack-") as folder,
        world(Path(folder) / "here", *DEFAULT_RATE, *arguments) as here,
        world(Path(folder) / "elsewhere", *DEFAULT_RATE, *arguments) as elsewhere,
    ):
        for each in (here, elsewhere):
            exhaustion.prepare(each.attacker)
        listen(here.victim, kinds, Latencies(), seconds)
        print(HEAD + "".join(f"{kind:>9}" for kind in kinds), flush=True)
        measured = []
        for name in names:
            measured.append(measure(here, elsewhere, name, kinds, seconds))
            print(line(measured[-1], kinds), flush=True)
        return measured


def measure(here: World, elsewhere: World, name: str, kinds: Sequence[str], seconds: float) -> Measured:
    """Measure one attack."""
    measured, each, pid = Measured(name), seconds / ROUNDS, here.plane.pid
    with attacking(here, name) as attacker, attacking(elsewhere, name) as other:
        for _ in range(ROUNDS):
            calm(here, elsewhere)
            listen(here.victim, kinds, measured.unloaded, each)
            with going_on(other):
                listen(here.victim, kinds, measured.elsewhere, each)
            calm(here, elsewhere)
            with going_on(attacker):
                before, began = cpu_seconds([pid]), time.monotonic()
                listen(here.victim, kinds, measured.attacked, each)
                measured.busy += (cpu_seconds([pid]) - before) / (time.monotonic() - began) / ROUNDS
    calm(here, elsewhere)
    return measured


@contextlib.contextmanager
def going_on(attacker: int) -> Iterator[None]:
    """Let a paused attacker run until the block ends."""
    os.kill(attacker, signal.SIGCONT)
    try:
        yield
    finally:
        os.kill(attacker, signal.SIGSTOP)


def calm(*worlds: World) -> None:
    """Wait until control planes, including their other processes, are idle."""
    until = time.monotonic() + MAX_CALM_SECONDS
    while time.monotonic() < until:
        before = _spent(worlds)
        time.sleep(CALM_SECONDS)
        if _spent(worlds) - before <= CALM_SHARE * CALM_SECONDS * len(worlds):
            return


def _spent(worlds: Sequence[World]) -> float:
    pids = [each.plane.pid for each in worlds]
    children = [Path(f"/proc/{pid}/task/{pid}/children").read_text().split() for pid in pids]
    return cpu_seconds([*pids, *(int(each) for found in children for each in found)])


def listen(quiet: Door, kinds: Sequence[str], into: Latencies, seconds: float) -> None:
    """Send the quiet tenant's requests repeatedly."""
    quiet = replace(quiet, source=ADDRESS)
    until = time.perf_counter() + seconds
    with quiet.connect(60) as connection, connection.makefile("rb") as stream:
        for kind in itertools.cycle(kinds):
            begin = time.perf_counter()
            if begin > until and all(into.of[each] for each in kinds):
                return
            if kind == CONNECT:
                answer: Answer | None = quiet.ask("GET", PLACE)
            else:
                connection.sendall(_request(quiet, kind, begin))
                answer = read_answer(stream)
            into.of[kind].append(1000 * (time.perf_counter() - begin))
            into.refused += answer is None or answer.status != 200
            time.sleep(PAUSE_SECONDS)


def _request(quiet: Door, kind: str, now: float) -> bytes:
    if kind == WRITE:
        patch = {"metadata": {"annotations": {"changed": str(now)}}}
        return quiet.request("PATCH", PLACE, patch, {"Content-Type": "application/merge-patch+json"})
    return quiet.request("GET", COLLECTION if kind == LIST else PLACE)


@contextlib.contextmanager
def attacking(found: World, name: str) -> Iterator[int]:
    """Start a paused process that attacks as fast as the server allows; yields its id."""
    kubeconfig = found.kubeconfig(ATTACKER)
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    process = context.Process(target=attack, args=(found.plane.port, kubeconfig, name, begun), daemon=True)
    process.start()
    begun.wait(60)
    assert process.pid is not None  # noqa: S101 - it was started
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield process.pid
    finally:
        process.kill()
        process.join()


def attack(port: int, kubeconfig: str, name: str, begun: multiprocessing.synchronize.Event) -> None:
    """Attack endlessly."""
    os.nice(NICENESS)
    attacker = door(port, kubeconfig)
    begun.set()
    while True:
        with contextlib.suppress(OSError):
            list(exhaustion.ATTACKS[name](attacker))


def line(found: Measured, kinds: Sequence[str]) -> str:
    """Format one row of the table."""
    columns = "".join(
        f"{found.attacked.at(share):8.1f}{found.unloaded.at(share):8.1f}{found.ratio(share):7.2f}"
        for share in (0.5, 0.99)
    )
    above = "" if found.ratio(0.99) <= AIM else "  above the aim"
    refused = found.attacked.refused + found.unloaded.refused + found.elsewhere.refused
    columns += f"{found.elsewhere.at(0.99):8.1f}{found.own(0.99):7.2f}"
    columns += f"{max(found.attacked.times):8.1f}{100 * found.busy:8.0f}{refused:8}"
    return f"{found.name:42}{columns}" + "".join(f"{found.ratio(0.99, kind):9.2f}" for kind in kinds) + above


def summary(measured: Sequence[Measured], kinds: Sequence[str]) -> str:
    """Summarize how many attacks were noticeable."""
    above = sum(each.ratio(0.99) > AIM for each in measured)
    own = sum(each.own(0.99) > AIM for each in measured)
    by_kind = ", ".join(
        f"{sum(each.ratio(0.99, kind) > AIM for each in measured)} of {kind}" for kind in kinds
    )
    return (
        f"{above} of {len(measured)} attacks raise the quiet tenant's p99 above {AIM} of the one without them, {own} above"
        f" {AIM} of the one while they go to another control plane of this machine; by kind of request: {by_kind}"
    )
