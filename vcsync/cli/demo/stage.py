"""The commentary and the system that the acts of `vcsync demo` share, and the state of the system."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from vcsync.api.names import PLACEMENTS, ROLE_NSSCHEDULER, ROLE_PODSCHEDULER, SUPER_CLUSTER
from vcsync.api.objects import SuperCluster
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.cli.command.errors import FailedError
from vcsync.cli.up import roles as up_roles
from vcsync.cli.up.process import Say, System
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import NAMESPACES, PODS
from vcsync.objects.envelope import Envelope, untyped
from vcsync.scheduling.snapshot import Health
from vcsync.simulate.door import Door
from vcsync.tenancy.failure import Patience
from vcsync.tenancy.health import judge_all_stored

ACME, UMBRELLA = "acme", "umbrella"
EAST, WEST = "east", "west"
SHOP = "shop"
POLL_SECONDS = 0.1
_WEST_NODES = f"hollow/{WEST}"

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

    async def until(self, what: str, check: Check, *, usual: float = 0.0) -> float:
        """Wait for a result and report it; return the seconds that it took.

        Args:
            what: the result.
            check: whether it is there.
            usual: seconds that it takes on any machine, to which the patience is added.

        Raises:
            FailedError: the result did not appear; the message says what was missing.
        """
        begun = time.monotonic()
        while missing := await check():
            if time.monotonic() - begun > self.patience + usual:
                raise FailedError(f"demo: not within {self.patience + usual:g} s: {what}; {missing}")
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


# ---- The state of the system ---------------------------------------------------------------


def switch_west_on(system: System) -> None:
    """Start the nodes of the super cluster behind the door."""
    number = len(system.wanted.members.hollow)
    nodes = up_roles.make_hollow(system.server, WEST, system.wanted.cluster, number)
    system.keeper.start(_WEST_NODES, nodes)


async def switch_west_off(system: System) -> None:
    """Stop these nodes; nothing runs on them any more."""
    await system.keeper.stop(_WEST_NODES)


async def placements(tenant: Client) -> dict[str, int]:
    """Return the slices of the namespace by super cluster."""
    namespace = await tenant.get(NAMESPACES, SHOP)
    return msgspec.json.decode(namespace.annotations.get(PLACEMENTS) or "{}", type=dict[str, int])


async def pods_of(tenant: Client, app: str) -> list[Envelope]:
    """Return the Pods of a workload."""
    return [pod for pod in await tenant.list(PODS, SHOP) if pod.labels.get("app") == app]


async def last_log(tenant: Client, pod: Envelope) -> list[str]:
    """Return the last line of a Pod's log, if there is one."""
    path = PODS.path(namespace=SHOP, name=pod.name, subresource="log")
    text = await tenant.request("GET", path, params={"tailLines": "1"})
    return text.decode(errors="replace").splitlines()


async def all_run(tenant: Client, app: str, count: int) -> str:
    """Check that a workload has this number of Pods, and that all of them run."""
    phases = Counter(phase_of(pod) for pod in await pods_of(tenant, app))
    return "" if phases == {"Running": count} else f"Pods are {dict(phases)}"


async def health(stage: Stage, wanted: Health) -> str:
    """Check how the operator sees the super cluster behind the door, with the patience of the schedulers."""
    tuning = stage.system.wanted.tuning
    pool = [SuperCluster.from_envelope(each) for each in await stage.system.server.list(SUPER_CLUSTERS)]
    patience = Patience(suspect_after=tuning.suspect_after, lost_after=tuning.lost_after)
    found = judge_all_stored(pool, datetime.now(UTC), patience)[WEST].health
    return "" if found is wanted else f"it is {found.name.lower()}"


async def used_again(stage: Stage) -> str:
    """Check that both schedulers count the super cluster behind the door as ready."""
    sources = stage.system.keeper.sources
    found = {
        role: sources[role].status().get("superClusters", {}).get(WEST, {}).get("health")
        for role in (ROLE_NSSCHEDULER, ROLE_PODSCHEDULER)
    }
    return "" if set(found.values()) == {"Ready"} else f"they see {found}"


async def gone(tenant: Client, pod: Envelope) -> str:
    """Check that a Pod is gone. Another one may have its name."""
    try:
        found = await tenant.get(PODS, pod.name, SHOP)
    except NotFound:
        return ""
    return f"it is {phase_of(found)}" if found.uid == pod.uid else ""


async def same_pods(stage: Stage) -> str:
    """Check that the super cluster behind the door has the Pods of the tenant, and no other ones."""
    seen = sorted(pod.name for pod in await stage.acme.list(PODS, SHOP) if super_of(pod) == WEST)
    there = sorted(pod.name for pod in await stage.west.list(PODS))
    return "" if seen == there else f"{ACME} sees {seen}, {WEST} has {there}"


def phase_of(pod: Envelope) -> str:
    """Return the phase of a Pod."""
    return str(untyped(pod.status).get("phase", "Pending")) if pod.status else "Pending"


def node_of(pod: Envelope) -> str:
    """Return the node of a Pod; empty: it has none yet."""
    return str(untyped(pod.spec).get("nodeName", ""))


def super_of(pod: Envelope) -> str:
    """Return the super cluster of a Pod; empty: it has none yet."""
    return pod.labels.get(SUPER_CLUSTER, "")


def plain(envelope: Envelope) -> dict[str, Any]:
    """Return the fields of an object that are neither metadata, spec nor status."""
    found: dict[str, Any] = msgspec.json.decode(envelope.rest or b"{}")
    return found


def quota_of(cpu: str, memory: str) -> dict[str, Any]:
    """Return a ResourceQuota."""
    return {"metadata": {"name": "all"}, "spec": {"hard": {"cpu": cpu, "memory": memory}}}


def deployment_of(name: str, replicas: int, cpu: str) -> dict[str, Any]:
    """Return a Deployment."""
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
