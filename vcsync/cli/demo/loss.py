"""The acts of `vcsync demo` about a super cluster that is lost: what its Pods wait for, what moves, the fence, the return."""

from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.api.names import SUPER_CLUSTER_LOST
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.cli.demo.stage import (
    ACME,
    EAST,
    SHOP,
    WEST,
    Stage,
    all_run,
    deployment_of,
    health,
    phase_of,
    placements,
    pods_of,
    same_pods,
    super_of,
    switch_west_off,
    switch_west_on,
    used_again,
)
from vcsync.cli.super.fence import lift_fence, set_fence
from vcsync.cli.tenant.limits import failover_of
from vcsync.kube.resources import DEPLOYMENTS, STATEFUL_SETS
from vcsync.objects.envelope import Envelope
from vcsync.registration.registered import require_tenant
from vcsync.scheduling.snapshot import Health

TILL, STOCK = "till", "stock"
REPLICAS = 2
MORE = 1
POLICY = "MoveAfter=1s"


class _Condition(Struct):
    type: str
    status: str
    reason: str = ""


class _Status(Struct):
    conditions: list[_Condition] = []


async def lost_and_regained(stage: Stage) -> None:
    """Lose the super cluster behind the door for long, move what may move, fence it, and get it back.

    Raises:
        FailedError, KubeError: an expected result did not appear.
    """
    await _lose(stage)
    await _move(stage)
    await _fence(stage)
    await _regain(stage)


async def _lose(stage: Stage) -> None:
    commentary, lost_after = stage.commentary, stage.system.wanted.tuning.lost_after
    await commentary.act(f"Super cluster {WEST} is lost, not just out of touch")
    for kind, name in ((DEPLOYMENTS, TILL), (STATEFUL_SETS, STOCK)):
        commentary.typed(
            ACME, f"kubectl -n {SHOP} apply -f {name}.yaml  # a {kind.kind}, {REPLICAS} replicas"
        )
    await stage.acme.create(DEPLOYMENTS, deployment_of(TILL, REPLICAS, "100m"), SHOP)
    await commentary.until(f"{TILL} runs", lambda: all_run(stage.acme, TILL, REPLICAS))
    await stage.acme.create(STATEFUL_SETS, _stateful_set_of(STOCK, REPLICAS, "100m"), SHOP)
    await commentary.until(f"{STOCK} runs", lambda: all_run(stage.acme, STOCK, REPLICAS))
    there = [pod for app in (TILL, STOCK) for pod in await pods_of(stage.acme, app) if super_of(pod) == WEST]
    shown = ", ".join(pod.name for pod in there)
    commentary.require(f"On {WEST} are {shown}.", {pod.labels["app"] for pod in there} == {TILL, STOCK})
    await stage.door.shut()
    await switch_west_off(stage.system)
    commentary.say(f"   The door to {WEST} is shut, and this time its nodes are switched off, too.")
    await commentary.until(
        f"the operator sees that {WEST} is suspect: it gets no new Pods",
        lambda: health(stage, Health.SUSPECT),
    )
    commentary.typed(ACME, f"kubectl -n {SHOP} scale deployment {TILL} --replicas={REPLICAS + MORE}")
    known = {pod.uid for pod in await pods_of(stage.acme, TILL)}
    await stage.acme.patch(DEPLOYMENTS, TILL, {"spec": {"replicas": REPLICAS + MORE}}, SHOP)
    await commentary.until(f"the new Pod runs on {EAST}", lambda: _new_ones(stage, TILL, known, MORE))
    await commentary.until(
        f"{WEST} is lost: it has not answered for {lost_after:g} s (usually 300 s)",
        lambda: health(stage, Health.LOST),
        usual=lost_after,
    )
    await commentary.until(
        f"its Pods have Ready=Unknown with reason {SUPER_CLUSTER_LOST}", lambda: _all_unknown(stage, there)
    )
    after = {pod.uid for app in (TILL, STOCK) for pod in await pods_of(stage.acme, app) if not pod.deleting}
    stays = {pod.uid for pod in there} <= after and (await placements(stage.acme)).get(WEST, 0) > 0
    commentary.require(f"Nothing moves: {ACME}'s policy is Stay, the default.", stays)


async def _move(stage: Stage) -> None:
    commentary = stage.commentary
    await commentary.act(f"The operator lets {ACME} move")
    commentary.typed("operator", f"vcsync tenant set {ACME} --failover {POLICY}")
    record = await require_tenant(stage.system.server, ACME)
    await stage.system.server.patch(
        VIRTUAL_CLUSTERS, record.name, {"spec": failover_of(POLICY)}, record.namespace
    )

    async def moved() -> str:
        found = await placements(stage.acme)
        return "" if set(found) == {EAST} else f"placements are {found}"

    await commentary.until(f"all slices of {SHOP} are on {EAST}", moved)

    async def replaced() -> str:
        running = [
            pod
            for pod in await pods_of(stage.acme, TILL)
            if super_of(pod) == EAST and phase_of(pod) == "Running"
        ]
        return "" if len(running) == REPLICAS + MORE else f"{len(running)} of its Pods run on {EAST}"

    await commentary.until(f"Deployment {TILL} has replaced its Pods of {WEST} on {EAST}", replaced)

    async def waits() -> str:
        held = [pod for pod in await pods_of(stage.acme, STOCK) if super_of(pod) == WEST]
        staying = [pod.name for pod in held if not pod.deleting]
        return f"{staying} are not Terminating" if staying else "" if held else f"none of them is on {WEST}"

    await commentary.until(f"the Pods of StatefulSet {STOCK} on {WEST} are Terminating", waits)
    commentary.say(
        "   They are not replaced: nobody knows whether they have ended, and their names are unique."
    )


async def _fence(stage: Stage) -> None:
    commentary = stage.commentary
    await commentary.act(f"The operator fences {WEST}")
    commentary.say(
        "   vcsync cannot check that nothing runs there. The operator has switched the nodes off, and says so."
    )
    commentary.typed("operator", f"vcsync super fence {WEST}")
    await set_fence(stage.system.server, WEST)

    async def all_on_east() -> str:
        pods = await pods_of(stage.acme, STOCK)
        found = Counter(f"{phase_of(pod)} on {super_of(pod) or 'no super cluster'}" for pod in pods)
        return "" if found == {f"Running on {EAST}": REPLICAS} else f"its Pods are {dict(found)}"

    await commentary.until(f"StatefulSet {STOCK} runs on {EAST}, under the same names", all_on_east)


async def _regain(stage: Stage) -> None:
    commentary = stage.commentary
    await commentary.act(f"Super cluster {WEST} is regained")
    stage.door.open()
    switch_west_on(stage.system)
    commentary.say(
        "   The door is open and the nodes are switched on. What ran there still stands in its API."
    )
    commentary.typed("operator", f"vcsync super unfence {WEST}")
    await lift_fence(stage.system.server, WEST, commentary.patience)
    commentary.say(f"   The Pods that {ACME} does not have any more have ended there.")
    await commentary.until(
        f"{WEST} has been quiet for some seconds: both schedulers use it again", lambda: used_again(stage)
    )
    await commentary.until(f"{WEST} runs exactly the Pods that {ACME} sees there", lambda: same_pods(stage))
    slices = await placements(stage.acme)
    commentary.require(
        f"The slices of {SHOP} stay on {EAST}: {ACME}'s fail-back is Never, the default.",
        set(slices) == {EAST},
    )


# ---- The state of the tenant ---------------------------------------------------------------


async def _new_ones(stage: Stage, app: str, known: set[str], count: int) -> str:
    new = [pod for pod in await pods_of(stage.acme, app) if pod.uid not in known]
    found = Counter(f"{phase_of(pod)} on {super_of(pod) or 'no super cluster'}" for pod in new)
    return "" if found == {f"Running on {EAST}": count} else f"new Pods are {dict(found)}"


async def _all_unknown(stage: Stage, there: list[Envelope]) -> str:
    known = {pod.uid for pod in there}
    found = [pod for app in (TILL, STOCK) for pod in await pods_of(stage.acme, app) if pod.uid in known]
    other = [pod.name for pod in found if not _is_unknown(pod)]
    return f"{other} say something else" if other else ""


def _is_unknown(pod: Envelope) -> bool:
    conditions = msgspec.json.decode(pod.status or b"{}", type=_Status).conditions
    return any(
        (each.type, each.status, each.reason) == ("Ready", "Unknown", SUPER_CLUSTER_LOST)
        for each in conditions
    )


def _stateful_set_of(name: str, replicas: int, cpu: str) -> dict[str, Any]:
    found = deployment_of(name, replicas, cpu)
    found["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return found
