"""One run: a system on a test bed behind fault proxies, tenants that churn, faults, then quiet and an audit."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from hack.audit import Finding, World, audit, read_world
from hack.audit.read import ReadError
from hack.audit.world import place
from hack.chaos.churn import Churn
from hack.chaos.faults import Cutter, Killer, Outages
from hack.chaos.spy import Sighting, Spy
from hack.system import System
from hack.testbed import TestBed
from hack.testbed.faultproxy import FaultProxy

LINGER_SECONDS = 5
"""How long virtual nodes stay without Pods here; the audit then demands that they are gone."""
LOOK_AGAIN_SECONDS = 3.0

Report = Callable[[str], None]


@dataclass(frozen=True)
class Weather:
    """How a run is to be."""

    seed: int
    seconds: float
    """How long the faults last, at least."""
    kills_of_each: int
    """How many times each role is killed while it works, at least; 0: nobody is killed."""
    settle_seconds: float
    """How long the system may take to come to rest afterwards."""
    longest_life: float = 4.0
    """Most seconds that a role works on before it is killed."""
    pause_of_faults: float = 4.0
    """Most seconds between two faults of connections; 0: connections are left alone."""
    requests: bool = False
    """Whether answers are faults too (429, 503, 410, truncated ones), not only connections."""
    longest_service: float = 0.0
    """Most seconds between two kills of an API server, one at a time; 0: none is killed."""
    pause_of_users: float = 0.4
    """Most seconds between two actions of one tenant."""


@dataclass
class Outcome:
    """What a run has come to."""

    findings: list[Finding] = field(default_factory=list)
    """Differences that were left when the time to settle was over."""
    sightings: list[Sighting] = field(default_factory=list)
    kills: dict[str, int] = field(default_factory=dict)
    """Kills of each role while it worked."""
    kills_at_start: dict[str, int] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    """Ends of roles that nobody killed."""
    faults: dict[str, int] = field(default_factory=dict)
    outages: dict[str, int] = field(default_factory=dict)
    """Kills of API servers, by cluster."""
    actions: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    """Answers to tenants' users that no user should get."""
    looked_at: dict[str, int] = field(default_factory=dict)
    """Events the spy has seen, by cluster."""
    compared: dict[str, int] = field(default_factory=dict)
    """Objects of the super clusters, by kind, that the last audit compared: that of nothing would be clean too."""
    settled_after: float | None = None
    """Seconds from the last fault to the first clean audit."""


async def storm(bed: TestBed, folder: Path, weather: Weather, report: Report = lambda _: None) -> Outcome:
    """Run vcsync on a test bed through churn and faults.

    Args:
        bed: a running test bed on which nothing is installed.
        folder: for kubeconfigs and logs of the roles.
        weather: how it is to be.
        report: called with a line of text now and then.
    """
    async with AsyncExitStack() as stack:
        proxies = {
            name: await stack.enter_async_context(cluster.proxy(folder, tcp=not weather.requests))
            for name, cluster in bed.clusters.items()
        }
        system = System(
            bed, folder / "system", kubeconfigs={name: proxy.kubeconfig for name, proxy in proxies.items()}
        )
        stack.push_async_callback(asyncio.to_thread, system.stop)
        await asyncio.to_thread(system.install)
        await asyncio.to_thread(_let_nodes_go_soon, bed)
        await asyncio.to_thread(system.start)
        report("the system runs")
        outcome = Outcome()
        supers = tuple(bed.supers)
        churns = {
            name: Churn(
                cluster,
                weather.seed,
                pause=weather.pause_of_users,
                super_ids=supers,
                outages=weather.longest_service > 0,
            )
            for name, cluster in bed.tenants.items()
        }
        marks = {name: (churn.marker,) for name, churn in churns.items()}
        spy = Spy(bed.tenants, bed.supers, keys=_keys(bed), marks=marks)
        watching = asyncio.create_task(spy.run())
        try:
            await _rage(system, proxies, churns, weather, outcome)
            report(f"quiet after {sum(outcome.actions.values())} actions, kills at work {outcome.kills}")
            await _settle(bed, system, marks, weather.settle_seconds, outcome, report)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        outcome.sightings, outcome.looked_at = spy.sightings, dict(spy.looked_at)
        return outcome


async def _rage(
    system: System,
    proxies: dict[str, FaultProxy],
    churns: dict[str, Churn],
    weather: Weather,
    outcome: Outcome,
) -> None:
    over, users_stop = asyncio.Event(), threading.Event()
    users = ThreadPoolExecutor(max_workers=len(churns), thread_name_prefix="churn")
    killer = Killer(system, weather.seed, longest_life=weather.longest_life)
    cutter = Cutter(proxies, weather.seed, pause=weather.pause_of_faults, requests=weather.requests)
    outages = Outages(system.bed.clusters, weather.seed, longest_service=weather.longest_service)
    try:
        async with asyncio.TaskGroup() as tasks:
            for churn in churns.values():
                tasks.create_task(_in_thread(users, churn.run, users_stop))
            faults = []
            if weather.pause_of_faults:
                faults.append(tasks.create_task(cutter.run(over)))
            if weather.longest_service:
                faults.append(tasks.create_task(outages.run(over)))
            if weather.kills_of_each:
                faults.append(tasks.create_task(killer.run(over, at_least=weather.kills_of_each)))
            await asyncio.sleep(weather.seconds)
            over.set()
            for fault in faults:
                await fault
            users_stop.set()
    finally:
        users_stop.set()
        users.shutdown(wait=False)
    outcome.kills, outcome.kills_at_start = dict(killer.kills), dict(killer.kills_at_start)
    outcome.ended, outcome.faults, outcome.outages = killer.ended, dict(cutter.faults), dict(outages.outages)
    for churn in churns.values():
        outcome.refused += churn.refused
        for action, count in churn.done.items():
            outcome.actions[action] = outcome.actions.get(action, 0) + count


async def _in_thread(
    threads: Executor, users: Callable[[threading.Event], None], stop: threading.Event
) -> None:
    """Users act as long as the storm lasts: they must not hold threads that others need for moments."""
    await asyncio.get_running_loop().run_in_executor(threads, users, stop)


async def _settle(  # noqa: PLR0917 - parts, each of its own type
    bed: TestBed,
    system: System,
    marks: Mapping[str, Sequence[str]],
    seconds: float,
    outcome: Outcome,
    report: Report,
) -> None:
    """Audit again and again until nothing is found or the time is over.

    A role that could not reach the meta cluster when it started, in the last of the faults, ends: somebody has to start
    it again, as everywhere.
    """
    began = time.monotonic()
    while True:
        outcome.ended += await asyncio.to_thread(system.revive)
        try:
            world = await asyncio.to_thread(look, bed, marks)
            outcome.findings, outcome.compared = audit(world), _compared(world)
        except ReadError as error:
            report(str(error))
            outcome.findings = [Finding("unreadable", actual=str(error))]
        lasted = time.monotonic() - began
        report(f"{lasted:.0f} s after the last fault: {len(outcome.findings)} findings")
        if not outcome.findings:
            outcome.settled_after = lasted
            return
        if lasted > seconds:
            return
        await asyncio.sleep(LOOK_AGAIN_SECONDS)


def look(bed: TestBed, marks: Mapping[str, Sequence[str]] | None = None) -> World:
    """Read a test bed's clusters as they are now."""
    return read_world(
        bed.meta.kubeconfig,
        {name: cluster.kubeconfig for name, cluster in bed.supers.items()},
        {name: cluster.kubeconfig for name, cluster in bed.tenants.items()},
        markers=marks,
        empty_nodes=False,
    )


def _compared(world: World) -> dict[str, int]:
    starts = tuple(f"{key}-" for key in world.tenants)
    places = [
        (kind, *place(found)) for cluster in world.supers.values() for kind, found in cluster.everything()
    ]
    return dict(Counter(kind for kind, namespace, name in places if (namespace or name).startswith(starts)))


def _let_nodes_go_soon(bed: TestBed) -> None:
    spec = {"virtualNodeLingerSeconds": LINGER_SECONDS, "heartbeatSeconds": LINGER_SECONDS}
    for name in bed.tenants:
        bed.meta.kubectl(
            "-n", "vcsync", "patch", "vc", name, "--type=merge", "-p", json.dumps({"spec": spec})
        )


def _keys(bed: TestBed) -> dict[str, str]:
    listing = json.loads(bed.meta.kubectl("-n", "vcsync", "get", "vc", "-o", "json"))
    return {found["metadata"]["name"]: found["status"]["clusterNamespace"] for found in listing["items"]}
