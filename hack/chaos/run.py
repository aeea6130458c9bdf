"""One run: a system on a test bed behind fault proxies, with churn by tenants and faults, then an audit at rest."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from hack.audit import Finding, World, audit, read_world
from hack.audit.read import Kubeconfig, ReadError
from hack.audit.world import place
from hack.chaos.churn import Churn
from hack.chaos.faults import Cutter, Etcd, Killer, Outages, Server
from hack.chaos.moves import PATIENCE, POLICIES, Moves
from hack.chaos.operator import Operator
from hack.chaos.published import own_ranges, service_cidr
from hack.chaos.spy import Sighting, Spy
from hack.chaos.witness import Witness
from hack.system import System, SystemFailed
from hack.testbed import TestBed
from hack.testbed.faultproxy import FaultProxy
from hack.testbed.processes import free_ports
from vcsync.api.names import ROLE_PODSCHEDULER

LINGER_SECONDS = 5
"""Seconds that virtual nodes stay without Pods here; the audit then requires that they are gone."""
LOOK_AGAIN_SECONDS = 3.0
ATTEND_SECONDS = 1.0
ETCD = "etcd"
"""Key of the losses of etcd members in the counts of outages."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class Weather:
    """The settings of a run."""

    seed: int
    seconds: float
    """Minimum duration of the faults."""
    kills_of_each: int
    """Minimum number of kills of each working role; 0: no kills."""
    settle_seconds: float
    """Time that the system may take to settle afterwards."""
    longest_life: float = 4.0
    """Maximum seconds until a working role is killed."""
    pause_of_faults: float = 4.0
    """Maximum seconds between two faults of connections; 0: none."""
    requests: bool = False
    """Whether answers are faults, too (429, 503, 410, truncated ones), and not only connections."""
    longest_service: float = 0.0
    """Maximum seconds between two kills of an API server, one at a time; 0: none."""
    etcd: bool = False
    """Whether members of the etcd that all clusters share are killed, too, sometimes a majority of them."""
    clocks: tuple[float, ...] = (0.0,)
    """Maximum error of a role's wall clock in seconds, chosen again at each start."""
    pause_of_users: float = 0.4
    """Maximum seconds between two actions of one tenant."""
    asking: int = 0
    """Number of tenants whose control planes ask the Pod scheduler about new Pods."""
    moves: bool = False
    """Whether super clusters are drained, rebalanced, lost and fenced, and tenants have policies for losses."""


@dataclass
class Outcome:
    """The result of a run."""

    findings: list[Finding] = field(default_factory=list)
    """Differences that remained when the time to settle was over."""
    unexplained: list[Finding] = field(default_factory=list)
    """Deletions in super clusters that no tenant requested and no lost placement caused."""
    twice: list[Finding] = field(default_factory=list)
    """Two copies of one Pod, or of one name, that may have run at the same moment."""
    copies: int = 0
    """Number of copies that have had a node."""
    moves: dict[str, int] = field(default_factory=dict)
    """Drains, rebalances, losses and fences."""
    moves_refused: list[str] = field(default_factory=list)
    """The errors of commands that moved nothing."""
    deletions: dict[str, int] = field(default_factory=dict)
    """Checked deletions in super clusters, by kind."""
    sightings: list[Sighting] = field(default_factory=list)
    kills: dict[str, int] = field(default_factory=dict)
    """Kills of each role while it worked."""
    kills_at_start: dict[str, int] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    """Unprovoked ends of roles while they started."""
    ended_at_work: list[str] = field(default_factory=list)
    """Unprovoked ends of roles while they worked, which are faults of the roles."""
    restarted: list[str] = field(default_factory=list)
    """Servers that ended by themselves, as upstream's do, and were restarted."""
    faults: dict[str, int] = field(default_factory=dict)
    outages: dict[str, int] = field(default_factory=dict)
    """Kills of API servers, by cluster."""
    actions: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    """Answers to tenants' users that no user should get."""
    looked_at: dict[str, int] = field(default_factory=dict)
    """Number of events that the spy has seen, by cluster."""
    compared: dict[str, int] = field(default_factory=dict)
    """Kind -> number of super clusters' objects that the last audit compared; an empty audit would be clean, too."""
    released: list[str] = field(default_factory=list)
    """Brakes that an operator had to release at the end, with their reasons."""
    webhook: str = ""
    """State of the placement webhook at the end; empty if nobody asks."""
    settled_after: float | None = None
    """Seconds from the last fault to the first clean audit."""


async def storm(bed: TestBed, folder: Path, weather: Weather, report: Report = lambda _: None) -> Outcome:
    """Run vcsync on a test bed with churn and faults.

    Args:
        bed: a running test bed on which nothing is installed.
        folder: for kubeconfigs and logs of the roles.
        weather: the settings of the run.
        report: called with lines of progress.
    """
    async with AsyncExitStack() as stack:
        proxies = {
            name: await stack.enter_async_context(cluster.proxy(folder, tcp=not weather.requests))
            for name, cluster in bed.clusters.items()
        }
        address = f"127.0.0.1:{free_ports(1)[0]}"
        asking = sorted(bed.tenants)[: weather.asking]
        options = dict.fromkeys(asking, ("--placement-webhook", address))
        if weather.moves:
            policies = zip(sorted(bed.tenants), cycle(POLICIES), strict=False)
            options |= {name: (*options.get(name, ()), *policy) for name, policy in policies}
        system = System(
            bed,
            folder / "system",
            kubeconfigs={name: proxy.kubeconfig for name, proxy in proxies.items()},
            tenant_options=options,
        )
        if weather.moves:
            system.options |= dict.fromkeys(system.role_names, PATIENCE)
        if asking:
            listen = ("--placement-webhook-listen", address)
            system.options[ROLE_PODSCHEDULER] = (*system.options.get(ROLE_PODSCHEDULER, ()), *listen)
        stack.push_async_callback(asyncio.to_thread, system.stop)
        await asyncio.to_thread(system.install)
        ranges = own_ranges(tuple(bed.tenants))
        await asyncio.to_thread(_configure, bed, ranges)
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
                store_lost=weather.etcd,
                own_range=ranges.get(name, ""),
            )
            for name, cluster in bed.tenants.items()
        }
        marks = {name: (churn.marker,) for name, churn in churns.items()}
        keys = _keys(bed)
        spy = Spy(bed.tenants, bed.supers, keys=keys, marks=marks)
        witness = _witness(bed, keys)
        operator = Operator(bed.supers, weather.seed)
        stack.push_async_callback(asyncio.to_thread, operator.stop)
        await asyncio.to_thread(operator.start)
        watching = [asyncio.create_task(spy.run()), asyncio.create_task(witness.run())]
        try:
            await _rage(system, proxies, churns, weather, outcome)
            await asyncio.to_thread(operator.settle)
            outcome.actions |= operator.done
            report(f"quiet after {sum(outcome.actions.values())} actions, kills at work {outcome.kills}")
            await _settle(bed, system, marks, weather, outcome, report)
            if asking:
                outcome.webhook = await _served(system, weather.settle_seconds)
        finally:
            for watch in watching:
                watch.cancel()
            ended = await asyncio.gather(*watching, return_exceptions=True)
        for end in ended:
            if isinstance(end, Exception):
                raise end
        await witness.finish()
        outcome.unexplained, outcome.deletions = (
            list(witness.deletions.without_cause()),
            witness.deletions.judged(),
        )
        outcome.twice, outcome.copies = list(witness.copies.twice()), witness.copies.judged()
        outcome.sightings, outcome.looked_at = spy.sightings, dict(spy.looked_at)
        return outcome


def _witness(bed: TestBed, keys: Mapping[str, str]) -> Witness:
    watched = {name: Kubeconfig(name, each.kubeconfig) for name, each in bed.clusters.items()}
    tenants = {keys[name]: watched[name] for name in bed.tenants}
    return Witness(watched[bed.meta.name], tenants, {name: watched[name] for name in bed.supers})


async def _rage(
    system: System,
    proxies: dict[str, FaultProxy],
    churns: dict[str, Churn],
    weather: Weather,
    outcome: Outcome,
) -> None:
    over, users_stop = asyncio.Event(), threading.Event()
    users = ThreadPoolExecutor(max_workers=len(churns), thread_name_prefix="churn")
    killer = Killer(system, weather.seed, longest_life=weather.longest_life, clocks=weather.clocks)
    cutter = Cutter(proxies, weather.seed, pause=weather.pause_of_faults, requests=weather.requests)
    servers: dict[str, Server] = dict(system.bed.clusters)
    if weather.etcd:
        servers[ETCD] = Etcd(system.bed, weather.seed)
    outages = Outages(servers, weather.seed, longest_service=weather.longest_service)
    moves = Moves(system, cutter, system.bed.supers, weather.seed)
    try:
        async with asyncio.TaskGroup() as tasks:
            for churn in churns.values():
                tasks.create_task(_in_thread(users, churn.run, users_stop))
            deployment = tasks.create_task(_attend(system.bed, outcome))
            faults = []
            if weather.pause_of_faults:
                faults.append(tasks.create_task(cutter.run(over)))
            if weather.longest_service:
                faults.append(tasks.create_task(outages.run(over)))
            if weather.moves:
                faults.append(tasks.create_task(moves.run(over)))
            if weather.kills_of_each:
                faults.append(tasks.create_task(killer.run(over, at_least=weather.kills_of_each)))
            await asyncio.sleep(weather.seconds)
            over.set()
            for fault in faults:
                await fault
            users_stop.set()
            deployment.cancel()
    finally:
        users_stop.set()
        users.shutdown(wait=False)
    outcome.kills, outcome.kills_at_start = dict(killer.kills), dict(killer.kills_at_start)
    outcome.ended, outcome.ended_at_work = killer.ended, killer.ended_at_work
    outcome.faults, outcome.outages = dict(cutter.faults), dict(outages.outages)
    outcome.moves, outcome.moves_refused = dict(moves.done), moves.refused
    for churn in churns.values():
        outcome.refused += churn.refused
        for action, count in churn.done.items():
            outcome.actions[action] = outcome.actions.get(action, 0) + count


async def _attend(bed: TestBed, outcome: Outcome) -> None:
    """Restart servers that ended by themselves, as Deployments do."""
    while True:
        await asyncio.sleep(ATTEND_SECONDS)
        outcome.restarted += await asyncio.to_thread(bed.revive)


async def _in_thread(
    threads: Executor, users: Callable[[threading.Event], None], stop: threading.Event
) -> None:
    """Let users act during the faults, in their own threads, so that they do not block other tasks."""
    await asyncio.get_running_loop().run_in_executor(threads, users, stop)


async def _settle(  # noqa: PLR0917 - parts, each of its own type
    bed: TestBed,
    system: System,
    marks: Mapping[str, Sequence[str]],
    weather: Weather,
    outcome: Outcome,
    report: Report,
) -> None:
    """Audit repeatedly until there are no findings or the time is over.

    Restarts roles, as a Deployment would: a role that cannot reach the meta cluster when it starts ends.
    """
    began = time.monotonic()
    while True:
        outcome.ended += await asyncio.to_thread(system.revive)
        outcome.restarted += await asyncio.to_thread(bed.revive)
        if outcome.outages.get(ETCD) or weather.moves:
            outcome.released += await asyncio.to_thread(_release, system)
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
        if lasted > weather.settle_seconds:
            return
        await asyncio.sleep(LOOK_AGAIN_SECONDS)


async def _served(system: System, seconds: float) -> str:
    """Wait until the placement webhook is served with a certificate that could be read. Return its state."""
    deadline = time.monotonic() + seconds
    while True:
        found = await asyncio.to_thread(_webhook, system)
        if found.startswith("served at") or time.monotonic() > deadline:
            return found
        await asyncio.sleep(LOOK_AGAIN_SECONDS)


def _webhook(system: System) -> str:
    try:
        [found] = system.status(ROLE_PODSCHEDULER)["roles"].values()
    except OSError as error:  # it does not answer
        return str(error)
    return str(found["placementWebhook"])


def _release(system: System) -> list[str]:
    """Release brakes, like an operator who knows that tenants deleted objects while no watch could report it."""
    try:
        braked = [found["message"] for found in json.loads(system.vcsync("brake", "status", "-o", "json"))]
        if braked:
            system.vcsync("brake", "release", "--all")
    except SystemFailed:
        # The next audit tries again.
        return []
    return braked


def look(bed: TestBed, marks: Mapping[str, Sequence[str]] | None = None) -> World:
    """Read the current state of a test bed's clusters."""
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


def _configure(bed: TestBed, ranges: Mapping[str, str]) -> None:
    """Have virtual nodes go soon, and give some tenants ranges of cluster IPs of their own."""
    for name, tenant in bed.tenants.items():
        spec: dict[str, object] = {
            "virtualNodeLingerSeconds": LINGER_SECONDS,
            "heartbeatSeconds": LINGER_SECONDS,
        }
        if cidr := ranges.get(name):
            tenant.kubectl("apply", "-f", "-", input=json.dumps(service_cidr(cidr)))
            spec["serviceCidr"] = cidr
        bed.meta.kubectl(
            "-n", "vcsync", "patch", "vc", name, "--type=merge", "-p", json.dumps({"spec": spec})
        )


def _keys(bed: TestBed) -> dict[str, str]:
    listing = json.loads(bed.meta.kubectl("-n", "vcsync", "get", "vc", "-o", "json"))
    return {found["metadata"]["name"]: found["status"]["clusterNamespace"] for found in listing["items"]}
