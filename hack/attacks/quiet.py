"""What a quiet tenant notices while another one attacks: its latencies during every attack, and without it in between.

The attacker, and what it attacks, run on the same machine as the quiet tenant's client. So it is asked a third time while
the same attack goes to another control plane of this machine: what it notices then is the machine's share.
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
"""What the quiet tenant does by turns: read one small object, list a few, change one, and read one over a new connection."""
ADDRESS = "127.0.0.2"
"""Where it connects from: an address of its own, as other tenants have."""
NICENESS = 19
"""Of the attacker's client, which would have a machine of its own."""
PAUSE_SECONDS = 0.005
"""Between the quiet tenant's requests: it asks for little."""
AIM = 1.5
"""Of the p99 during an attack to the one without it."""
ROUNDS = 4
"""So often the attack pauses: a machine that others use too is as busy with it as without it, on average."""
CALM_SECONDS, CALM_SHARE, MAX_CALM_SECONDS = 0.1, 0.05, 20.0
"""A paused attack is over when the server takes no more than this share of a processor; waited for so long at most."""
DEFAULT_RATE = ("--max-connection-rate", "50")
HEAD = (
    f"{'quiet tenant during':42}{'p50 ms':>8}{'without':>8}{'ratio':>7}{'p99 ms':>8}{'without':>8}{'ratio':>7}"
    f"{'beside':>8}{'ratio':>7}{'worst':>8}{'busy %':>8}{'refused':>8}"
)


@dataclass
class Latencies:
    """What the quiet tenant saw, in ms, by kind of request; `refused`: answers that were something else than 200."""

    of: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in REQUESTS})
    refused: int = 0

    @property
    def times(self) -> list[float]:
        """All of them."""
        return [each for times in self.of.values() for each in times]

    def at(self, share: float, kind: str = "") -> float:
        """A percentile, of one kind or of all."""
        return percentile(self.of[kind] if kind else self.times, share)


@dataclass
class Measured:
    """One attack. `beside`: while it goes to another control plane; `busy`: share of a processor that the server took."""

    name: str
    attacked: Latencies = field(default_factory=Latencies)
    unloaded: Latencies = field(default_factory=Latencies)
    beside: Latencies = field(default_factory=Latencies)
    busy: float = 0.0

    def ratio(self, share: float, kind: str = "") -> float:
        """A percentile during the attack to the same without it, of one kind of request or of all."""
        return self.attacked.at(share, kind) / self.unloaded.at(share, kind)

    def own(self, share: float) -> float:
        """A percentile during the attack to the same during one beside it: what is not the machine's."""
        return self.attacked.at(share) / max(self.beside.at(share), self.unloaded.at(share))


def run(seconds: float, names: Sequence[str], kinds: Sequence[str], *arguments: str) -> list[Measured]:
    """Measure each attack for so many seconds, as long without it and as long beside it, in turns."""
    with (
        tempfile.TemporaryDirectory(prefix="vcsync-attack-") as folder,
        world(Path(folder) / "here", *DEFAULT_RATE, *arguments) as here,
        world(Path(folder) / "beside", *DEFAULT_RATE, *arguments) as beside,
    ):
        for each in (here, beside):
            exhaustion.prepare(each.attacker)
        listen(here.victim, kinds, Latencies(), seconds)
        print(HEAD + "".join(f"{kind:>9}" for kind in kinds), flush=True)
        measured = []
        for name in names:
            measured.append(measure(here, beside, name, kinds, seconds))
            print(line(measured[-1], kinds), flush=True)
        return measured


def measure(here: World, beside: World, name: str, kinds: Sequence[str], seconds: float) -> Measured:
    """Measure one attack."""
    measured, each, pid = Measured(name), seconds / ROUNDS, here.plane.pid
    with attacking(here, name) as attacker, attacking(beside, name) as other:
        for _ in range(ROUNDS):
            calm(here, beside)
            listen(here.victim, kinds, measured.unloaded, each)
            with going_on(other):
                listen(here.victim, kinds, measured.beside, each)
            calm(here, beside)
            with going_on(attacker):
                before, began = cpu_seconds([pid]), time.monotonic()
                listen(here.victim, kinds, measured.attacked, each)
                measured.busy += (cpu_seconds([pid]) - before) / (time.monotonic() - began) / ROUNDS
    calm(here, beside)
    return measured


@contextlib.contextmanager
def going_on(attacker: int) -> Iterator[None]:
    """Let a paused attacker go on until the block ends."""
    os.kill(attacker, signal.SIGCONT)
    try:
        yield
    finally:
        os.kill(attacker, signal.SIGSTOP)


def calm(*worlds: World) -> None:
    """Wait until control planes have nothing more to do, their other processes included."""
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
    """Do what a quiet tenant does, again and again."""
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
    """Have another process that attacks as fast as the server lets it, and is paused; gives its id."""
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
    """Attack without an end."""
    os.nice(NICENESS)
    attacker = door(port, kubeconfig)
    begun.set()
    while True:
        with contextlib.suppress(OSError):
            list(exhaustion.ATTACKS[name](attacker))


def line(found: Measured, kinds: Sequence[str]) -> str:
    """One row of the table."""
    told = "".join(
        f"{found.attacked.at(share):8.1f}{found.unloaded.at(share):8.1f}{found.ratio(share):7.2f}"
        for share in (0.5, 0.99)
    )
    above = "" if found.ratio(0.99) <= AIM else "  above the aim"
    refused = found.attacked.refused + found.unloaded.refused + found.beside.refused
    told += f"{found.beside.at(0.99):8.1f}{found.own(0.99):7.2f}"
    told += f"{max(found.attacked.times):8.1f}{100 * found.busy:8.0f}{refused:8}"
    return f"{found.name:42}{told}" + "".join(f"{found.ratio(0.99, kind):9.2f}" for kind in kinds) + above


def summary(measured: Sequence[Measured], kinds: Sequence[str]) -> str:
    """How many attacks were noticed."""
    above = sum(each.ratio(0.99) > AIM for each in measured)
    own = sum(each.own(0.99) > AIM for each in measured)
    by_kind = ", ".join(
        f"{sum(each.ratio(0.99, kind) > AIM for each in measured)} of {kind}" for kind in kinds
    )
    return (
        f"{above} of {len(measured)} attacks raise the quiet tenant's p99 above {AIM} of the one without them, {own} above"
        f" {AIM} of the one while they go to another control plane of this machine; by kind of request: {by_kind}"
    )
