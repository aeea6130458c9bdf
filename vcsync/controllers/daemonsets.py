"""DaemonSets: a Pod on every node that will have it.

Behaviour: Kubernetes' `pkg/controller/daemon`. For spaces that have nodes of their own; the virtual nodes of tenants only
show where Pods went, nothing is put on them.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct

from vcsync.api.names import VIRTUAL_NODE
from vcsync.controllers import daemonset_nodes, owning, pods, revisions
from vcsync.controllers.daemonset_objects import (
    REVISION_LABEL,
    DaemonSet,
    DaemonSetStatus,
    new_pod,
    read_daemon_set,
    should_run,
)
from vcsync.controllers.mirror import Key, key_of, namespace_of
from vcsync.controllers.plan import (
    NOTHING,
    Action,
    Controller,
    Delete,
    Emit,
    Look,
    Outcome,
    Plan,
    Watch,
    status_patch,
)
from vcsync.controllers.pod_events import pod_events
from vcsync.controllers.waking import claimant, own, standing
from vcsync.kube.cache import Change
from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import CONTROLLER_REVISIONS, DAEMON_SETS, NAMESPACES, NODES, PODS, Resource

NAME = "daemonset-controller"
BURST = 250
"""Pods made, and Pods deleted, in one look at most."""
FIRST_BACKOFF, LAST_BACKOFF = timedelta(seconds=1), timedelta(minutes=15)
"""How long a daemon that fails again and again is left to lie before it is replaced."""
NODE_SECONDS = 0.5
"""Changes of nodes are gathered for so long: many come at once, and each concerns every DaemonSet."""


POD_PACE, POD_SECONDS = 2500.0, 2.0
"""Changes of a DaemonSet's Pods are gathered for as many seconds as its nodes divided by this, but no longer."""


class _Failed(Struct, frozen=True):
    """When a failed daemon of a node was last replaced, and how long the next one is left."""

    generation: int
    at: datetime
    wait: timedelta


class DaemonSets:
    """Remembers where daemons failed lately; after a restart they are replaced at once, as with Kubernetes."""

    def __init__(self) -> None:
        self._failed: dict[str, dict[str, _Failed]] = {}
        self._uids: dict[Key, str] = {}

    def plan(self, look: Look, key: Key) -> Plan:
        """Decide which nodes get a daemon, lose one, or have it replaced."""
        envelope = look.of[DAEMON_SETS].get(*key)
        if envelope is None:
            self._failed.pop(self._uids.pop(key, ""), None)
            return NOTHING
        if envelope.deleting:
            return NOTHING
        set_ = read_daemon_set(envelope)
        mine, claims = owning.claim(
            DAEMON_SETS, envelope, set_.selector, PODS, _candidates(look, envelope, PODS)
        )
        kept, adoptions = owning.claim(
            DAEMON_SETS,
            envelope,
            set_.selector,
            CONTROLLER_REVISIONS,
            _candidates(look, envelope, CONTROLLER_REVISIONS),
        )
        collisions = set_.status.collision_count or 0
        history = revisions.history(DAEMON_SETS, envelope, set_.template, kept, collisions, REVISION_LABEL)
        revision = _hash(history.update)
        daemons = daemonset_nodes.by_node(mine)
        spared, again = self._spare(look, key, set_, daemons)
        scene = daemonset_nodes.Scene(set_, _places(look, set_), daemons, revision, look.now)
        wanted = daemonset_nodes.lacking(scene, spared)
        told = _ended(set_, wanted.surplus)
        if not wanted and set_.spec.update_strategy.type == "RollingUpdate":
            wanted = daemonset_nodes.updates(scene)
        steps: list[Sequence[Action]] = [claims, adoptions, history.actions, told]
        steps.append([_deletion(pod) for pod in wanted.surplus[:BURST]])
        steps.append([new_pod(set_, node, revision, look.suffix()) for node in wanted.nodes[:BURST]])
        if not wanted:
            steps.append(_superfluous(set_, history, mine))
        waits = [
            each
            for each in (again, pods.ripe_in(mine, set_.spec.min_ready_seconds, look.now))
            if each is not None
        ]
        return Plan(steps, partial(_finish, key, revision), min(waits, default=None))

    def _spare(
        self, look: Look, key: Key, set_: DaemonSet, daemons: daemonset_nodes.Daemons
    ) -> tuple[set[str], float | None]:
        """Return the failed daemons that are not replaced yet, and in how many seconds the first is."""
        uid, generation = set_.envelope.uid, set_.status.observed_generation
        if self._uids.get(key) != uid:
            self._failed.pop(self._uids.pop(key, ""), None)
        known = self._failed.get(uid, {})
        spared: set[str] = set()
        waits: list[float] = []
        for node, here in daemons.items():
            for pod in here:
                if pod.deleting or pods.status(pod).phase != "Failed":
                    continue
                last = known.get(node)
                if last is not None and (
                    last.generation != generation or look.now - last.at > 2 * LAST_BACKOFF
                ):
                    last = None
                if last is not None and look.now - last.at < last.wait:
                    spared.add(pod.uid)
                    waits.append((last.wait - (look.now - last.at)).total_seconds())
                    continue
                wait = FIRST_BACKOFF if last is None else min(last.wait * 2, LAST_BACKOFF)
                known = {**known, node: _Failed(generation, look.now, wait)}
        if known:
            self._failed[uid], self._uids[key] = known, uid
        return spared, min(waits, default=None)


def _candidates(look: Look, envelope: Envelope, of: Resource) -> list[Envelope]:
    orphans = look.of[of].orphans(envelope.tenant, namespace_of(envelope))
    return [*owning.controlled(look.of[of], envelope), *orphans]


def _places(look: Look, set_: DaemonSet) -> dict[str, tuple[bool, bool]]:
    """Whether a daemon is to run, and may go on, on each of the nodes that are nodes, by name."""
    nodes = look.of[NODES].within(set_.envelope.tenant)
    found = {node.name: should_run(set_, node) for node in nodes if VIRTUAL_NODE not in node.labels}
    return dict(sorted(found.items()))


def _hash(revision: revisions.Revision) -> str:
    labels = revision.envelope.labels if revision.envelope is not None else {}
    return labels.get(REVISION_LABEL) or revision.name.rpartition("-")[2]


def _ended(set_: DaemonSet, surplus: Iterable[Envelope]) -> list[Action]:
    """Tell of daemons that have ended, which none should."""
    about, found = _about(set_.envelope), list[Action]()
    for pod in surplus:
        phase, node = pods.status(pod).phase, pods.spec(pod).node_name
        where = f"daemon pod {namespace_of(pod)}/{pod.name} on node {node}"
        if phase == "Failed":
            found.append(
                Emit(about, "Warning", "FailedDaemonPod", f"Found failed {where}, will try to kill it")
            )
        elif phase == "Succeeded":
            message = f"Found succeeded {where}, will try to delete it"
            found.append(Emit(about, "Normal", "SucceededDaemonPod", message))
    return found


def _deletion(pod: Envelope) -> Delete:
    return Delete(PODS, namespace_of(pod), pod.name, pod.uid)


def _superfluous(set_: DaemonSet, history: revisions.History, mine: Iterable[Envelope]) -> list[Action]:
    """Give up the oldest revisions beyond those that are to be kept, but for those that Pods are of."""
    old = [each for each in history.kept if each.name != history.update.name and each.envelope is not None]
    live = {pod.labels.get(REVISION_LABEL) for pod in mine}
    beyond = max(len(old) - set_.spec.revision_history_limit, 0)
    unused = [each.envelope for each in old if _hash(each) not in live]
    return [
        Delete(CONTROLLER_REVISIONS, namespace_of(each), each.name, each.uid)
        for each in unused[:beyond]
        if each is not None
    ]


# ---- The status and Events -----------------------------------------------------------------


def _finish(key: Key, revision: str, look: Look, outcome: Outcome) -> Iterable[Action]:
    envelope = look.of[DAEMON_SETS].get(*key)
    if envelope is None:
        return
    yield from pod_events(_about(envelope), outcome)
    set_ = read_daemon_set(envelope)
    after = _status(look, set_, revision)
    if revisions.collided(outcome.failures):
        after.collision_count = (set_.status.collision_count or 0) + 1
    if after != set_.status:
        yield status_patch(DAEMON_SETS, envelope, _written(after))


def _status(look: Look, set_: DaemonSet, revision: str) -> DaemonSetStatus:
    mine = [
        pod for pod in owning.controlled(look.of[PODS], set_.envelope) if set_.selector.matches(pod.labels)
    ]
    daemons = daemonset_nodes.by_node(mine)
    status = DaemonSetStatus(
        observed_generation=set_.envelope.generation, collision_count=set_.status.collision_count
    )
    for node, (run, _) in _places(look, set_).items():
        here = daemons.get(node)
        if not run:
            status.number_misscheduled += here is not None
            continue
        status.desired_number_scheduled += 1
        if here is None:
            continue
        pod = min(here, key=daemonset_nodes.age_rank)
        ready = pods.ready_since(pod) is not None
        status.current_number_scheduled += 1
        status.number_ready += ready
        status.number_available += ready and pods.is_available(pod, set_.spec.min_ready_seconds, look.now)
        status.updated_number_scheduled += set_.is_updated(pod, revision)
    status.number_unavailable = status.desired_number_scheduled - status.number_available
    return status


def _written(status: DaemonSetStatus) -> dict[str, object]:
    return {
        "currentNumberScheduled": status.current_number_scheduled,
        "numberMisscheduled": status.number_misscheduled,
        "desiredNumberScheduled": status.desired_number_scheduled,
        "numberReady": status.number_ready,
        "observedGeneration": status.observed_generation or None,
        "updatedNumberScheduled": status.updated_number_scheduled or None,
        "numberAvailable": status.number_available or None,
        "numberUnavailable": status.number_unavailable or None,
        "collisionCount": status.collision_count,
    }


def _about(envelope: Envelope) -> ObjectRef:
    return ObjectRef("apps/v1", "DaemonSet", envelope.name, namespace_of(envelope), envelope.uid)


# ---- What asks for a look ------------------------------------------------------------------


def _gathered(_change: Change, look: Look, key: Key) -> float:
    """Seconds until a change of a Pod is looked at: a DaemonSet of thousands is not counted anew for each."""
    envelope = look.of[DAEMON_SETS].get(*key)
    if envelope is None:
        return 0.0
    return min(decode(envelope.status, DaemonSetStatus).desired_number_scheduled / POD_PACE, POD_SECONDS)


def _node(change: Change, look: Look) -> Iterable[Key]:
    """All DaemonSets of the space, when a node comes, goes, or gets other labels or another spec."""
    old, new = change.old, change.new
    if VIRTUAL_NODE in standing(change).labels:
        return ()
    if old is not None and new is not None and old.labels == new.labels and old.spec == new.spec:
        return ()
    tenant = standing(change).tenant
    namespaces = [each.name for each in look.of[NAMESPACES].within(tenant)]
    return [key_of(each) for name in namespaces for each in look.of[DAEMON_SETS].within(tenant, name)]


def daemon_sets() -> Controller:
    """Return the controller."""
    claimants = claimant(DAEMON_SETS, lambda envelope: read_daemon_set(envelope).selector)
    return Controller(
        NAME,
        (
            Watch(DAEMON_SETS, own),
            Watch(PODS, claimants, _gathered),
            Watch(CONTROLLER_REVISIONS, claimants),
            Watch(NODES, _node, lambda *_: NODE_SECONDS),
        ),
        DaemonSets().plan,
        (NAMESPACES,),
    )
