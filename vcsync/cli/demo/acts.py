"""The acts of `vcsync demo`: each describes its actions, does them, and waits for the expected results."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from vcsync.api.names import PLACEMENTS, SUPER_CLUSTER
from vcsync.api.objects import SuperCluster
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.cli.command.errors import FailedError
from vcsync.cli.up import roles as up_roles
from vcsync.cli.up import spaces as up_spaces
from vcsync.cli.up.process import Say, System, running
from vcsync.cli.up.settings import Wanted
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS, RESOURCE_QUOTAS
from vcsync.objects.envelope import Envelope, untyped
from vcsync.registration import issued
from vcsync.scheduling.snapshot import Health
from vcsync.simulate.door import Door
from vcsync.tenancy.health import judge_stored

ACME, UMBRELLA = "acme", "umbrella"
EAST, WEST = "east", "west"
SHOP = "shop"
POLL_SECONDS = 0.1
REPLICAS = 4
MORE = 2

Check = Callable[[], Awaitable[str]]
"""Returns the missing part of an expected result; empty: nothing is missing."""


@dataclass(frozen=True)
class Commentary:
    """Prints the commentary and checks its statements.

    Attributes:
        say: prints a line.
        pause: waits before each act.
        patience: seconds that an expected result may take.
    """

    say: Say
    pause: Callable[[], Awaitable[None]]
    patience: float

    async def act(self, title: str) -> None:
        """Begin another act."""
        self.say("")
        await self.pause()
        self.say(f"== {title}")

    def typed(self, who: str, command: str) -> None:
        """Show the command for the action that follows."""
        self.say(f"   {who} $ {command}")

    async def until(self, what: str, check: Check) -> float:
        """Wait for a result and report it; return the seconds that it took.

        Raises:
            FailedError: the result did not appear; the message says what was missing.
        """
        begun = time.monotonic()
        while missing := await check():
            if time.monotonic() - begun > self.patience:
                raise FailedError(f"demo: not within {self.patience:g} s: {what}; {missing}")
            await asyncio.sleep(POLL_SECONDS)
        seconds = time.monotonic() - begun
        self.say(f"   {what} ({seconds:.1f} s)")
        return seconds

    def require(self, what: str, true: bool) -> None:
        """Print a statement that must be true now.

        Raises:
            FailedError: it is not true.
        """
        if not true:
            raise FailedError(f"demo: this is not true: {what}")
        self.say(f"   {what}")


@dataclass(frozen=True)
class Stage:
    """The system of the demo. `west`: client of the super cluster's API that does not use the door."""

    commentary: Commentary
    system: System
    door: Door
    acme: Client
    umbrella: Client
    west: Client


async def play(wanted: Wanted, commentary: Commentary, pile: int) -> None:
    """Play all acts.

    Raises:
        FailedError, WrongInputError, KubeError: an expected result did not appear.
    """
    commentary.say(
        "A complete system starts in this process: control planes, controllers, schedulers, syncers."
    )
    async with AsyncExitStack() as stack:
        system = await stack.enter_async_context(running(wanted, lambda text: commentary.say(f"   {text}")))
        door = await stack.enter_async_context(Door(*wanted.plane.listen))
        await _add_west(system, door)
        commentary.say(
            f"   super cluster {WEST}: {wanted.cluster.nodes} hollow nodes, behind a door that the demo can shut"
        )
        await commentary.until("every role and super cluster is ready", lambda: _ready(system))
        clients = [
            await stack.enter_async_context(await _client(system, each)) for each in (ACME, UMBRELLA, WEST)
        ]
        stage = Stage(commentary, system, door, *clients)
        await _two_tenants(stage)
        await _quota(stage)
        await _deployment(stage)
        await _away_and_back(stage)
        await _greedy_and_quiet(stage, pile)
        restarts = {
            name: source.status().get("restarts", 0) for name, source in system.keeper.sources.items()
        }
        commentary.say("")
        commentary.require("No role failed or was restarted meanwhile.", not any(restarts.values()))
    commentary.say("== The end: every expected result appeared, and nothing is left on this machine.")


async def _add_west(system: System, door: Door) -> None:
    """Add a super cluster that its syncer reaches only through the door; its nodes do not use the door."""

    def through(kubeconfig: bytes) -> bytes:
        return kubeconfig.replace(system.url.encode(), f"https://127.0.0.1:{door.port}".encode())

    await up_spaces.add_embedded_super(system.server, WEST, through)
    number = len(system.wanted.members.hollow)
    west = up_roles.make_hollow(system.server, WEST, system.wanted.cluster, number)
    system.keeper.start(f"hollow/{WEST}", west)


async def _client(system: System, space: str) -> Client:
    kubeconfig = await issued.kubeconfig(system.server, space)
    return Client(Connection.from_kubeconfig_bytes(kubeconfig), name=space, field_manager="vcsync-demo")


async def _ready(system: System) -> str:
    return "; ".join(await system.not_ready())


# ---- The acts ----------------------------------------------------------------------------


async def _two_tenants(stage: Stage) -> None:
    commentary = stage.commentary
    await commentary.act("Two tenants, each with a Kubernetes API of its own")
    for client, price in ((stage.acme, "10"), (stage.umbrella, "99")):
        commentary.typed(client.name, f"kubectl create namespace {SHOP}")
        await client.create(NAMESPACES, {"metadata": {"name": SHOP}})
        commentary.typed(client.name, f"kubectl -n {SHOP} create configmap prices --from-literal=tea={price}")
        await client.create(CONFIG_MAPS, {"metadata": {"name": "prices"}, "data": {"tea": price}}, SHOP)
    await stage.umbrella.create(CONFIG_MAPS, {"metadata": {"name": "secret-recipe"}}, SHOP)
    seen = {each.name for each in await stage.acme.list(CONFIG_MAPS, SHOP)}
    commentary.require(f"{ACME}'s {SHOP} does not contain {UMBRELLA}'s recipe.", "secret-recipe" not in seen)
    found = _plain(await stage.acme.get(CONFIG_MAPS, "prices", SHOP))
    commentary.require(
        f"Objects of the same name are independent: {ACME}'s tea is 10.", found["data"]["tea"] == "10"
    )


async def _quota(stage: Stage) -> None:
    commentary = stage.commentary
    await commentary.act("A quota becomes slices, which are distributed over the super clusters")
    commentary.typed(ACME, f"kubectl -n {SHOP} create quota all --hard=cpu=8,memory=16Gi")
    await stage.acme.create(RESOURCE_QUOTAS, _quota_of("8", "16Gi"), SHOP)

    async def dealt() -> str:
        placements = await _placements(stage.acme)
        return "" if placements == {EAST: 2, WEST: 2} else f"placements are {placements}"

    await commentary.until(f"namespace {SHOP} has two slices on {EAST} and two on {WEST}", dealt)


async def _deployment(stage: Stage) -> None:
    commentary = stage.commentary
    await commentary.act("One Deployment, two clusters")
    commentary.typed(ACME, f"kubectl -n {SHOP} create deployment web --image=nginx --replicas={REPLICAS}")
    await stage.acme.create(DEPLOYMENTS, _deployment_of("web", REPLICAS, "500m"), SHOP)
    await commentary.until(f"its {REPLICAS} Pods run", lambda: _all_run(stage.acme, "web", REPLICAS))
    pods = await _pods(stage.acme, "web")
    for pod in pods:
        commentary.say(f"     {pod.name}  {_node(pod)}")
    commentary.require("They are on both super clusters.", {_super(pod) for pod in pods} == {EAST, WEST})
    pod = next(pod for pod in pods if _super(pod) == EAST)
    commentary.typed(ACME, f"kubectl -n {SHOP} logs {pod.name} --tail=1")
    lines: list[str] = []

    async def written() -> str:
        lines[:] = await _log(stage.acme, pod)
        return "" if lines else "its log is empty"

    await commentary.until(f"its log comes from {EAST}", written)
    commentary.say(f"     {lines[-1]}")


async def _away_and_back(stage: Stage) -> None:
    commentary = stage.commentary
    await commentary.act(f"Super cluster {WEST} goes away")
    before = await _pods(stage.acme, "web")
    lost = next(pod for pod in before if _super(pod) == WEST)
    await stage.door.shut()
    commentary.say(f"   The door to {WEST} is shut: its API cannot be reached, but its Pods keep running.")
    await commentary.until(
        f"the operator sees that {WEST} is not ready", lambda: _health(stage, Health.SUSPECT)
    )
    commentary.typed(ACME, f"kubectl -n {SHOP} delete pod {lost.name} --wait=false")
    await stage.acme.delete(PODS, lost.name, SHOP)
    commentary.typed(ACME, f"kubectl -n {SHOP} scale deployment web --replicas={REPLICAS + MORE}")
    await stage.acme.patch(DEPLOYMENTS, "web", {"spec": {"replicas": REPLICAS + MORE}}, SHOP)
    known = {pod.uid for pod in before}

    async def elsewhere() -> str:
        new = [pod for pod in await _pods(stage.acme, "web") if pod.uid not in known]
        there = Counter(f"{_phase(pod)} on {_super(pod) or 'no super cluster'}" for pod in new)
        return "" if there == {f"Running on {EAST}": MORE + 1} else f"new Pods are {dict(there)}"

    await commentary.until(f"{MORE} more Pods and the replacement of {lost.name} run on {EAST}", elsewhere)
    ending = await stage.acme.get(PODS, lost.name, SHOP)
    commentary.require(f"{lost.name} is Terminating: it could not be deleted in {WEST}.", ending.deleting)
    await commentary.act(f"Super cluster {WEST} comes back")
    stage.door.open()
    await commentary.until(f"{WEST} is ready again", lambda: _health(stage, Health.READY))
    await commentary.until(f"{lost.name} has been deleted there and is gone", lambda: _gone(stage.acme, lost))
    await commentary.until(f"{WEST} runs exactly the Pods that {ACME} sees there", lambda: _same(stage))


async def _greedy_and_quiet(stage: Stage, pile: int) -> None:
    commentary = stage.commentary
    await commentary.act("A greedy tenant next to a quiet one")
    alone = await _one_pod(stage, "alone")
    commentary.typed(UMBRELLA, f"kubectl -n {SHOP} create quota all --hard=cpu=64,memory=128Gi")
    await stage.umbrella.create(RESOURCE_QUOTAS, _quota_of("64", "128Gi"), SHOP)

    async def dealt() -> str:
        placements = await _placements(stage.umbrella)
        return "" if sum(placements.values()) >= pile // 100 else f"placements are {placements}"

    await commentary.until(f"{UMBRELLA} has slices", dealt)
    commentary.typed(UMBRELLA, f"kubectl -n {SHOP} create deployment pile --image=nginx --replicas={pile}")
    await stage.umbrella.create(DEPLOYMENTS, _deployment_of("pile", pile, "10m"), SHOP)
    beside = await _one_pod(stage, "beside")
    done = sum(_phase(pod) == "Running" for pod in await _pods(stage.umbrella, "pile"))
    commentary.require(
        f"By then {done} of the {pile} Pods of {UMBRELLA} ran: {ACME} did not queue behind them.", done < pile
    )
    commentary.say(f"   {ACME}'s Pod took {alone:.1f} s alone and {beside:.1f} s next to them.")
    await commentary.until(
        f"all {pile} Pods of {UMBRELLA} run, too", lambda: _all_run(stage.umbrella, "pile", pile)
    )


async def _one_pod(stage: Stage, name: str) -> float:
    """Create a Deployment of one Pod as the quiet tenant; return the seconds until it runs."""
    stage.commentary.typed(ACME, f"kubectl -n {SHOP} create deployment {name} --image=nginx --replicas=1")
    begun = time.monotonic()
    await stage.acme.create(DEPLOYMENTS, _deployment_of(name, 1, "100m"), SHOP)
    await stage.commentary.until(f"{ACME}'s Pod runs", lambda: _all_run(stage.acme, name, 1))
    return time.monotonic() - begun


# ---- The state of the system ---------------------------------------------------------------


async def _placements(tenant: Client) -> dict[str, int]:
    namespace = await tenant.get(NAMESPACES, SHOP)
    return msgspec.json.decode(namespace.annotations.get(PLACEMENTS) or "{}", type=dict[str, int])


async def _pods(tenant: Client, app: str) -> list[Envelope]:
    return [pod for pod in await tenant.list(PODS, SHOP) if pod.labels.get("app") == app]


async def _log(tenant: Client, pod: Envelope) -> list[str]:
    """Return the last line of a Pod's log, if there is one."""
    path = PODS.path(namespace=SHOP, name=pod.name, subresource="log")
    text = await tenant.request("GET", path, params={"tailLines": "1"})
    return text.decode(errors="replace").splitlines()


async def _all_run(tenant: Client, app: str, count: int) -> str:
    phases = Counter(_phase(pod) for pod in await _pods(tenant, app))
    return "" if phases == {"Running": count} else f"Pods are {dict(phases)}"


async def _health(stage: Stage, wanted: Health) -> str:
    west = SuperCluster.from_envelope(await stage.system.server.get(SUPER_CLUSTERS, WEST))
    health = judge_stored(west, datetime.now(UTC)).health
    return "" if health is wanted else f"it is {health.name.lower()}"


async def _gone(tenant: Client, pod: Envelope) -> str:
    try:
        found = await tenant.get(PODS, pod.name, SHOP)
    except NotFound:
        return ""
    return f"it is {_phase(found)}" if found.uid == pod.uid else ""


async def _same(stage: Stage) -> str:
    seen = sorted(pod.name for pod in await stage.acme.list(PODS, SHOP) if _super(pod) == WEST)
    there = sorted(pod.name for pod in await stage.west.list(PODS))
    return "" if seen == there else f"{ACME} sees {seen}, {WEST} has {there}"


def _phase(pod: Envelope) -> str:
    return str(untyped(pod.status).get("phase", "Pending")) if pod.status else "Pending"


def _node(pod: Envelope) -> str:
    return str(untyped(pod.spec).get("nodeName", ""))


def _super(pod: Envelope) -> str:
    return pod.labels.get(SUPER_CLUSTER, "")


def _plain(envelope: Envelope) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(envelope.rest or b"{}")
    return found


def _quota_of(cpu: str, memory: str) -> dict[str, Any]:
    return {"metadata": {"name": "all"}, "spec": {"hard": {"cpu": cpu, "memory": memory}}}


def _deployment_of(name: str, replicas: int, cpu: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {
        "name": "web",
        "image": "nginx",
        "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}},
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
