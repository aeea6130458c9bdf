"""What a quiet tenant notices while another one attacks: its latencies, unloaded and during every attack."""

from __future__ import annotations

import contextlib
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.attacks import exhaustion
from hack.attacks.client import Door, read_answer
from hack.attacks.world import ATTACKER, World, door, world
from hack.bench.meter import percentile

PLACE = "/api/v1/namespaces/default/configmaps/kept-0"
PAUSE_SECONDS = 0.005
"""Between the quiet tenant's requests: it asks for little."""
AIM = 1.5
"""Of the p99 during an attack to the unloaded one."""
HEAD = f"{'quiet tenant during':42}{'p50 ms':>9}{'p99 ms':>9}{'worst':>9}{'ratio':>8}{'refused':>9}"


@dataclass(frozen=True)
class Latencies:
    """What the quiet tenant saw, in ms; `refused`: requests that were answered by something else than 200."""

    name: str
    p50: float
    p99: float
    worst: float
    count: int
    refused: int


def run(seconds: float, names: Sequence[str]) -> list[Latencies]:
    """Measure without, then during each attack for so many seconds, one after the other; the first is unloaded."""
    with tempfile.TemporaryDirectory(prefix="vcsync-attack-") as folder, world(Path(folder)) as found:
        exhaustion.prepare(found.attacker)
        measured = [listen(found.victim, "unloaded", 3 * seconds)]
        print(HEAD, line(measured[0], measured[0]), sep="\n", flush=True)
        for name in names:
            with attacking(found, name):
                measured.append(listen(found.victim, name, seconds))
            print(line(measured[0], measured[-1]), flush=True)
        return measured


def listen(quiet: Door, name: str, seconds: float) -> Latencies:
    """Ask for one small object again and again."""
    latencies: list[float] = []
    refused = 0
    until = time.perf_counter() + seconds
    with quiet.connect(60) as connection, connection.makefile("rb") as stream:
        while time.perf_counter() < until or not latencies:
            begin = time.perf_counter()
            connection.sendall(quiet.request("GET", PLACE))
            answer = read_answer(stream)
            latencies.append(1000 * (time.perf_counter() - begin))
            refused += answer is None or answer.status != 200
            time.sleep(PAUSE_SECONDS)
    return Latencies(
        name, percentile(latencies, 0.5), percentile(latencies, 0.99), max(latencies), len(latencies), refused
    )


@contextlib.contextmanager
def attacking(found: World, name: str) -> Iterator[None]:
    """Let another process attack, as fast as the server lets it, until the block ends."""
    kubeconfig = found.kubeconfig(ATTACKER)
    process = multiprocessing.get_context("spawn").Process(
        target=attack, args=(found.plane.port, kubeconfig, name), daemon=True
    )
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def attack(port: int, kubeconfig: str, name: str) -> None:
    """Attack without an end."""
    attacker = door(port, kubeconfig)
    while True:
        with contextlib.suppress(OSError):
            list(exhaustion.ATTACKS[name](attacker))


def line(unloaded: Latencies, found: Latencies) -> str:
    """One row of the table."""
    ratio = found.p99 / unloaded.p99
    told = "" if ratio <= AIM else "  above the aim"
    return f"{found.name:42}{found.p50:9.1f}{found.p99:9.1f}{found.worst:9.1f}{ratio:8.1f}{found.refused:9}{told}"


def summary(measured: Sequence[Latencies]) -> str:
    """How many attacks were noticed."""
    above = sum(each.p99 > AIM * measured[0].p99 for each in measured)
    return (
        f"{above} of {len(measured) - 1} attacks raise the quiet tenant's p99 above {AIM} of the unloaded one"
    )
