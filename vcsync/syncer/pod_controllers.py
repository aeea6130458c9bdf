"""Reads which of a namespace's Pods are ready, and how many of them their controllers want, for one step of a drain."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct, ValidationError, field

from vcsync.kube.client import Client
from vcsync.kube.errors import Forbidden, KubeError, NotFound
from vcsync.kube.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from vcsync.objects.conditions import Condition, find_condition, is_true
from vcsync.objects.envelope import Envelope, OwnerReference, decode
from vcsync.objects.selectors import InvalidSelector, LabelSelector, Selector, compile_selector
from vcsync.syncer.availability import Demand, Member, reason_to_stay, tolerated_of
from vcsync.syncer.kinds.token import TERMINAL_PHASES

ANSWER_SECONDS: Final = 10.0
"""Longest time that the tenant's control plane may take to say whether a Pod may leave."""
MOST_PAGES: Final = 20
"""Pages of Pods that are read of one namespace. Pods beyond them may leave at any time."""

_REPLICATED = {
    (each.kind, each.group): each for each in (REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS)
}
_FREE = {(each.kind, each.group) for each in (JOBS, DAEMON_SETS, NODES)}
"""Controllers that promise no number of ready Pods."""


class _PodStatus(Struct, gc=False):
    phase: str = ""
    conditions: list[Condition] = []


class _RollingUpdate(Struct, gc=False, rename="camel"):
    max_unavailable: int | str | None = None


class _Strategy(Struct, gc=False, rename="camel"):
    type: str = ""
    rolling_update: _RollingUpdate | None = None


class _ControllerSpec(Struct, gc=False):
    replicas: int = 1
    strategy: _Strategy | None = None


class _DeploymentSpec(Struct, gc=False):
    selector: LabelSelector = field(default_factory=LabelSelector)


class _Group(NamedTuple):
    """The Pods of one controller; no demand: they may leave at any time."""

    demand: Demand | None
    members: Sequence[Member]


_FREE_GROUP = _Group(None, ())


class PodControllers:
    """The Pods of one namespace of a tenant and their controllers, as they are read live during one step of a drain.

    The control plane may be the tenant's own, so its answers may be late, malformed or endless.

    Args:
        client: the tenant's control plane.
        namespace: the namespace.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._pods: dict[str, Envelope] | None = None
        self._groups: dict[str, _Group] = {}
        self._left: set[str] = set()
        self._unanswered = ""

    async def why_stay(self, name: str, uid: str) -> str:
        """Return why a Pod must stay at present; "" if it may leave.

        Args:
            name: the Pod.
            uid: its UID in the tenant. A Pod that the tenant no longer has may leave.
        """
        if self._unanswered:
            return self._unanswered
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._why_stay(name, uid)
        except (KubeError, ValidationError, TimeoutError) as error:
            said = str(error) or f"nothing within {ANSWER_SECONDS:.0f} s"
            self._unanswered = f"its control plane did not say which Pods are ready: {said}"
            return self._unanswered

    async def _why_stay(self, name: str, uid: str) -> str:
        if self._pods is None:
            found = await self._client.list(PODS, self._namespace, most_pages=MOST_PAGES)
            self._pods = {pod.name: pod for pod in found if _status(pod).phase not in TERMINAL_PHASES}
        pod = self._pods.get(name)
        owner = next((each for each in pod.owners if each.controller), None) if pod is not None else None
        if pod is None or pod.uid != uid or owner is None:
            return ""
        if owner.uid not in self._groups:
            self._groups[owner.uid] = await self._group(owner, list(self._pods.values()))
        demand, members = self._groups[owner.uid]
        return reason_to_stay(name, members, demand, self._left) if demand is not None else ""

    def note_left(self, name: str) -> None:
        """Note that a Pod has been told to leave."""
        self._left.add(name)

    async def _group(self, owner: OwnerReference, pods: Sequence[Envelope]) -> _Group:
        kind = owner.kind, owner.apiVersion.rpartition("/")[0]
        if kind in _FREE:
            return _FREE_GROUP
        own = [pod for pod in pods if any(each.uid == owner.uid for each in pod.owners)]
        resource = _REPLICATED.get(kind)
        if resource is None:
            return _seen_group(owner, own)
        try:
            found = await self._read(resource, owner)
            above = next((each for each in found.owners if each.controller), None) if found else None
            if resource == REPLICA_SETS and above is not None and above.kind == DEPLOYMENTS.kind:
                deployment = await self._read(DEPLOYMENTS, above)
                return _group_of(deployment, pods) if deployment is not None else _FREE_GROUP
        except Forbidden:  # the tenant's roles are of an earlier version
            return _seen_group(owner, own)
        if found is None:
            return _FREE_GROUP
        demand = Demand(f"{owner.kind} {owner.name}", decode(found.spec, _ControllerSpec).replicas)
        return _Group(demand, _members(own))

    async def _read(self, resource: Resource, owner: OwnerReference) -> Envelope | None:
        """Return a controller; None if it is gone."""
        try:
            found = await self._client.get(resource, owner.name, self._namespace)
        except NotFound:
            return None
        return found if found.uid == owner.uid else None


def _group_of(deployment: Envelope, pods: Sequence[Envelope]) -> _Group:
    """Return the Pods of all ReplicaSets of a Deployment: during a rollout there are several."""
    spec = decode(deployment.spec, _ControllerSpec)
    update = spec.strategy.rolling_update if spec.strategy is not None else None
    tolerated = tolerated_of(update.max_unavailable, spec.replicas) if update is not None else 0
    selector = _selector(deployment)
    own = [
        pod
        for pod in pods
        if selector.matches(pod.labels)
        and any(each.controller and each.kind == REPLICA_SETS.kind for each in pod.owners)
    ]
    return _Group(Demand(f"{DEPLOYMENTS.kind} {deployment.name}", spec.replicas, tolerated), _members(own))


def _seen_group(owner: OwnerReference, own: Sequence[Envelope]) -> _Group:
    """Return the Pods of a controller whose demand is not known: it wants as many as it has."""
    return _Group(Demand(f"{owner.kind} {owner.name}", len(own)), _members(own))


def _selector(deployment: Envelope) -> Selector:
    try:
        return compile_selector(decode(deployment.spec, _DeploymentSpec).selector)
    except InvalidSelector:  # its API server stores none
        return Selector()


def _members(pods: Sequence[Envelope]) -> list[Member]:
    return [_member(pod) for pod in pods]


def _member(pod: Envelope) -> Member:
    conditions = _status(pod).conditions
    scheduled = find_condition(conditions, "PodScheduled")
    waits = scheduled.message if scheduled is not None and scheduled.status == "False" else ""
    return Member(pod.name, not pod.deleting and is_true(conditions, "Ready"), waits)


def _status(pod: Envelope) -> _PodStatus:
    return decode(pod.status, _PodStatus) if pod.status else _PodStatus()
