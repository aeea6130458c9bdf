"""Measures contenders in turns on the same servers, so that a slow time of the machine meets all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from hack.bench import load, runs
from hack.bench.comparison import Contender, Turn
from hack.bench.load import Latency
from hack.bench.peer import Peer
from hack.bench.runs import Burst
from hack.bench.stage import NAMESPACE, Side, Stage, say
from vcsync.process import loop

CLEARING_SECONDS = 600.0


class Amounts(Struct, frozen=True):
    """Pods of each part of a turn."""

    burst: int
    warm_up: int = runs.WARM_UP
    single: int = runs.ONE_AT_A_TIME


def order(count: int, contenders: tuple[Contender, ...]) -> Iterator[tuple[int, tuple[Contender, ...]]]:
    """Yield each round's number and order; every second one is reversed, because the stores of the servers grow.

    The direct turn always comes first: nothing of a syncer exists then.
    """
    first, others = contenders[:1], contenders[1:]
    for number in range(1, count + 1):
        yield number, (*first, *(others if number % 2 else others[::-1]))


def measure(
    stage: Stage, peer: Peer | None, rounds: int, amounts: Amounts, done: Callable[[Turn], None]
) -> None:
    """Measure all contenders in each round; what one of them made is removed before the next one starts.

    Args:
        stage: with no role running.
        peer: None: only directly and through vcsync.
        rounds: their number.
        amounts: Pods of each part.
        done: called with each finished turn.

    Raises:
        PeerFailed: the peer does not run, which is found before anything is measured, or it failed in a turn.
    """
    if peer is not None:
        say("peer: first Pod")
        peer.start()
        peer.withdraw()
    contenders: tuple[Contender, ...] = ("direct", "ours", "peer") if peer else ("direct", "ours")
    for number, each in order(rounds, contenders):
        for contender in each:
            say(f"round {number} of {rounds}, {contender}: {amounts.burst} Pods, then one at a time")
            done(turn(stage, peer, contender, number, amounts))


def turn(stage: Stage, peer: Peer | None, contender: Contender, number: int, amounts: Amounts) -> Turn:
    """Start a contender, put the load on its side, and remove what it made.

    Args:
        stage: with no role running.
        peer: needed if the turn is the peer's.
        contender: whose turn it is.
        number: of the round.
        amounts: Pods of each part.
    """
    if contender == "ours":
        stage.start_roles()
        made = loop.run(_load(stage, stage.tenant, amounts))
        stage.withdraw()
    elif contender == "peer" and peer is not None:
        peer.start()
        made = peer.run(_load(stage, peer.side, amounts))
        peer.withdraw()
    else:
        made = loop.run(_load(stage, stage.direct, amounts))
    return Turn(contender, number, *made)


async def _load(stage: Stage, side: Side, amounts: Amounts) -> tuple[Burst, Latency]:
    await runs.warm_up(stage, side, amounts.warm_up)
    burst = await runs.burst(stage, side, amounts.burst)
    async with load.client_of(side.cluster.kubeconfig, side.name) as client:
        await load.clear(client, NAMESPACE, seconds=CLEARING_SECONDS)
    await stage.settle()
    return burst, await runs.one_at_a_time(side, amounts.single)
