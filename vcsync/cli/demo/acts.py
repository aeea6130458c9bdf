"""The acts of `vcsync demo`: each describes its actions, does them, and waits for the expected results."""

import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace

from vcsync.cli.demo.loss import lost_and_regained
from vcsync.cli.demo.stage import (
    ACME,
    EAST,
    SHOP,
    UMBRELLA,
    WEST,
    Commentary,
    Stage,
    all_run,
    deployment_of,
    gone,
    health,
    last_log,
    node_of,
    phase_of,
    placements,
    plain,
    pods_of,
    quota_of,
    same_pods,
    super_of,
    switch_west_on,
    used_again,
)
from vcsync.cli.up import spaces as up_spaces
from vcsync.cli.up.process import System, running
from vcsync.cli.up.settings import Wanted
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.resources import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS, RESOURCE_QUOTAS
from vcsync.registration import issued
from vcsync.scheduling.snapshot import Health
from vcsync.simulate.door import Door

REPLICAS = 4
MORE = 2
SUSPECT_SECONDS = 29.0
"""More than the 20 seconds between two heartbeats."""
LOST_SECONDS = 30.0


def impatient(wanted: Wanted) -> Wanted:
    """Return the settings with little patience for super clusters that are out of touch, so that the demo is short."""
    tuning = replace(wanted.tuning, suspect_after=SUSPECT_SECONDS, lost_after=LOST_SECONDS)
    return replace(wanted, tuning=tuning)


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
        await lost_and_regained(stage)
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
    switch_west_on(system)


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
    found = plain(await stage.acme.get(CONFIG_MAPS, "prices", SHOP))
    commentary.require(
        f"Objects of the same name are independent: {ACME}'s tea is 10.", found["data"]["tea"] == "10"
    )


async def _quota(stage: Stage) -> None:
    commentary = stage.commentary
    await commentary.act("A quota becomes slices, which are distributed over the super clusters")
    commentary.typed(ACME, f"kubectl -n {SHOP} create quota all --hard=cpu=8,memory=16Gi")
    await stage.acme.create(RESOURCE_QUOTAS, quota_of("8", "16Gi"), SHOP)

    async def dealt() -> str:
        dealt_to = await placements(stage.acme)
        return "" if dealt_to == {EAST: 2, WEST: 2} else f"placements are {dealt_to}"

    await commentary.until(f"namespace {SHOP} has two slices on {EAST} and two on {WEST}", dealt)


async def _deployment(stage: Stage) -> None:
    commentary = stage.commentary
    await commentary.act("One Deployment, two clusters")
    commentary.typed(ACME, f"kubectl -n {SHOP} create deployment web --image=nginx --replicas={REPLICAS}")
    await stage.acme.create(DEPLOYMENTS, deployment_of("web", REPLICAS, "500m"), SHOP)
    await commentary.until(f"its {REPLICAS} Pods run", lambda: all_run(stage.acme, "web", REPLICAS))
    pods = await pods_of(stage.acme, "web")
    for pod in pods:
        commentary.say(f"     {pod.name}  {node_of(pod)}")
    commentary.require("They are on both super clusters.", {super_of(pod) for pod in pods} == {EAST, WEST})
    pod = next(pod for pod in pods if super_of(pod) == EAST)
    commentary.typed(ACME, f"kubectl -n {SHOP} logs {pod.name} --tail=1")
    lines: list[str] = []

    async def written() -> str:
        lines[:] = await last_log(stage.acme, pod)
        return "" if lines else "its log is empty"

    await commentary.until(f"its log comes from {EAST}", written)
    commentary.say(f"     {lines[-1]}")


async def _away_and_back(stage: Stage) -> None:
    commentary = stage.commentary
    await commentary.act(f"Super cluster {WEST} goes away")
    before = await pods_of(stage.acme, "web")
    lost = next(pod for pod in before if super_of(pod) == WEST)
    await stage.door.shut()
    commentary.say(f"   The door to {WEST} is shut: its API cannot be reached, but its Pods keep running.")
    await commentary.until(
        f"the operator sees that {WEST} is not ready", lambda: health(stage, Health.SUSPECT)
    )
    commentary.typed(ACME, f"kubectl -n {SHOP} delete pod {lost.name} --wait=false")
    await stage.acme.delete(PODS, lost.name, SHOP)
    commentary.typed(ACME, f"kubectl -n {SHOP} scale deployment web --replicas={REPLICAS + MORE}")
    await stage.acme.patch(DEPLOYMENTS, "web", {"spec": {"replicas": REPLICAS + MORE}}, SHOP)
    known = {pod.uid for pod in before}

    async def elsewhere() -> str:
        new = [pod for pod in await pods_of(stage.acme, "web") if pod.uid not in known]
        there = Counter(f"{phase_of(pod)} on {super_of(pod) or 'no super cluster'}" for pod in new)
        return "" if there == {f"Running on {EAST}": MORE + 1} else f"new Pods are {dict(there)}"

    await commentary.until(f"{MORE} more Pods and the replacement of {lost.name} run on {EAST}", elsewhere)
    ending = await stage.acme.get(PODS, lost.name, SHOP)
    commentary.require(f"{lost.name} is Terminating: it could not be deleted in {WEST}.", ending.deleting)
    await commentary.act(f"Super cluster {WEST} comes back")
    stage.door.open()
    await commentary.until(f"{WEST} is ready again", lambda: used_again(stage))
    await commentary.until(f"{lost.name} has been deleted there and is gone", lambda: gone(stage.acme, lost))
    await commentary.until(f"{WEST} runs exactly the Pods that {ACME} sees there", lambda: same_pods(stage))


async def _greedy_and_quiet(stage: Stage, pile: int) -> None:
    commentary = stage.commentary
    await commentary.act("A greedy tenant next to a quiet one")
    alone = await _one_pod(stage, "alone")
    commentary.typed(UMBRELLA, f"kubectl -n {SHOP} create quota all --hard=cpu=64,memory=128Gi")
    await stage.umbrella.create(RESOURCE_QUOTAS, quota_of("64", "128Gi"), SHOP)

    async def dealt() -> str:
        dealt_to = await placements(stage.umbrella)
        return "" if sum(dealt_to.values()) >= pile // 100 else f"placements are {dealt_to}"

    await commentary.until(f"{UMBRELLA} has slices", dealt)
    commentary.typed(UMBRELLA, f"kubectl -n {SHOP} create deployment pile --image=nginx --replicas={pile}")
    await stage.umbrella.create(DEPLOYMENTS, deployment_of("pile", pile, "10m"), SHOP)
    beside = await _one_pod(stage, "beside")
    done = sum(phase_of(pod) == "Running" for pod in await pods_of(stage.umbrella, "pile"))
    commentary.require(
        f"By then {done} of the {pile} Pods of {UMBRELLA} ran: {ACME} did not queue behind them.", done < pile
    )
    commentary.say(f"   {ACME}'s Pod took {alone:.1f} s alone and {beside:.1f} s next to them.")
    await commentary.until(
        f"all {pile} Pods of {UMBRELLA} run, too", lambda: all_run(stage.umbrella, "pile", pile)
    )


async def _one_pod(stage: Stage, name: str) -> float:
    """Create a Deployment of one Pod as the quiet tenant; return the seconds until it runs."""
    stage.commentary.typed(ACME, f"kubectl -n {SHOP} create deployment {name} --image=nginx --replicas=1")
    begun = time.monotonic()
    await stage.acme.create(DEPLOYMENTS, deployment_of(name, 1, "100m"), SHOP)
    await stage.commentary.until(f"{ACME}'s Pod runs", lambda: all_run(stage.acme, name, 1))
    return time.monotonic() - begun
