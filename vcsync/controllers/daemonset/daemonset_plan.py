"""DaemonSets: one Pod on every eligible node.

Behaviour: Kubernetes' `pkg/controller/daemon`. It serves spaces that have their own nodes. The virtual nodes of tenants only
show where Pods run, and get no daemons.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct

from vcsync.api.names import VIRTUAL_NODE
from vcsync.controllers.daemonset import nodes as daemonset_nodes
from vcsync.controllers.daemonset.objects import (
    REVISION_LABEL,
    DaemonSet,
    DaemonSetStatus,
    new_pod,
    read_daemon_set,
    should_run,
)
from vcsync.controllers.framework import controller_revisions as revisions
from vcsync.controllers.framework import ownership, pods
from vcsync.controllers.framework.event_handlers import claimant, everywhere, own, standing
from vcsync.controllers.framework.mirror import Key, key_of, namespace_of
from vcsync.controllers.framework.plan import (
    NOTHING,
    Action,
    Controller,
    Delete,
    Emit,
    Outcome,
    Plan,
    View,
    Watch,
    status_patch,
)
from vcsync.controllers.framework.pod_events import pod_events
from vcsync.kube.cache import Change
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import CONTROLLER_REVISIONS, DAEMON_SETS, NAMESPACES, NODES, PODS, Resource
from vcsync.objects.envelope import Envelope, decode

NAME = "daemonset-controller"
BURST = 250
"""Maximum number of Pods created, and of Pods deleted, in one reconcile."""
FIRST_BACKOFF, LAST_BACKOFF = timedelta(seconds=1), timedelta(minutes=15)
"""Bounds of the back-off before a failed daemon is replaced."""
NODE_SECONDS = 0.5
"""Seconds for which changes of nodes are collected: many come together, and each concerns every DaemonSet."""


POD_PACE, POD_SECONDS = 2500.0, 2.0
"""Changes of a DaemonSet's Pods are collected for its number of nodes divided by this, in seconds, up to a maximum."""


class _Failed(Struct, frozen=True):
    """The time when a failed daemon of a node was last replaced, and the current back-off."""

    generation: int
    at: datetime
    wait: timedelta


class DaemonSets:
    """Remembers recent failures of daemons; after a restart failed daemons are replaced immediately, as in Kubernetes."""

    def __init__(self) -> None:
        self._failed: dict[str, dict[str, _Failed]] = {}
        self._uids: dict[Key, str] = {}

    def plan(self, view: View, key: Key) -> Plan:
        """Create, delete and replace daemons on nodes."""
        envelope = view.of[DAEMON_SETS].get(*key)
        if envelope is None:
            self._failed.pop(self._uids.pop(key, ""), None)
            return NOTHING
        if envelope.deleting:
            return NOTHING
        set_ = read_daemon_set(envelope)
        mine, claims = ownership.claim(
            DAEMON_SETS, envelope, set_.selector, PODS, _candidates(view, envelope, PODS)
        )
        kept, adoptions = ownership.claim(
            DAEMON_SETS,
            envelope,
            set_.selector,
            CONTROLLER_REVISIONS,
            _candidates(view, envelope, CONTROLLER_REVISIONS),
        )
        collisions = set_.status.collision_count or 0
        history = revisions.history(DAEMON_SETS, envelope, set_.template, kept, collisions, REVISION_LABEL)
        revision = _hash(history.update)
        daemons = daemonset_nodes.by_node(mine)
        spared, again = self._spare(view, key, set_, daemons)
        state = daemonset_nodes.DaemonSetState(set_, _places(view, set_), daemons, revision, view.now)
        wanted = daemonset_nodes.lacking(state, spared)
        events = _ended(set_, wanted.surplus)
        if not wanted and set_.spec.update_strategy.type == "RollingUpdate":
            wanted = daemonset_nodes.updates(state)
        steps: list[Sequence[Action]] = [claims, adoptions, history.actions, events]
        steps.append([_deletion(pod) for pod in wanted.surplus[:BURST]])
        steps.append([new_pod(set_, node, revision, view.suffix()) for node in wanted.nodes[:BURST]])
        if not wanted:
            steps.append(_superfluous(set_, history, mine))
        waits = [
            each
            for each in (again, pods.ripe_in(mine, set_.spec.min_ready_seconds, view.now))
            if each is not None
        ]
        return Plan(steps, partial(_finish, key, revision), min(waits, default=None))

    def _spare(
        self, view: View, key: Key, set_: DaemonSet, daemons: daemonset_nodes.Daemons
    ) -> tuple[set[str], float | None]:
        """Return the failed daemons in back-off, and the seconds until the first one ends."""
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
                    last.generation != generation or view.now - last.at > 2 * LAST_BACKOFF
                ):
                    last = None
                if last is not None and view.now - last.at < last.wait:
                    spared.add(pod.uid)
                    waits.append((last.wait - (view.now - last.at)).total_seconds())
                    continue
                wait = FIRST_BACKOFF if last is None else min(last.wait * 2, LAST_BACKOFF)
                known = {**known, node: _Failed(generation, view.now, wait)}
        if known:
            self._failed[uid], self._uids[key] = known, uid
        return spared, min(waits, default=None)


def _candidates(view: View, envelope: Envelope, of: Resource) -> list[Envelope]:
    orphans = view.of[of].orphans(envelope.tenant, namespace_of(envelope))
    return [*ownership.controlled(view.of[of], envelope), *orphans]


def _places(view: View, set_: DaemonSet) -> dict[str, tuple[bool, bool]]:
    """Return for each existing node, by name, whether a daemon should run there and whether one may continue."""
    nodes = view.of[NODES].within(set_.envelope.tenant)
    found = {node.name: should_run(set_, node) for node in nodes if VIRTUAL_NODE not in node.labels}
    return dict(sorted(found.items()))


def _hash(revision: revisions.Revision) -> str:
    labels = revision.envelope.labels if revision.envelope is not None else {}
    return labels.get(REVISION_LABEL) or revision.name.rpartition("-")[2]


def _ended(set_: DaemonSet, surplus: Iterable[Envelope]) -> list[Action]:
    """Report daemons that have ended, although daemons should run forever."""
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
    """Delete the oldest revisions beyond the history limit, except those that Pods use."""
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


def _finish(key: Key, revision: str, view: View, outcome: Outcome) -> Iterable[Action]:
    envelope = view.of[DAEMON_SETS].get(*key)
    if envelope is None:
        return
    yield from pod_events(_about(envelope), outcome)
    set_ = read_daemon_set(envelope)
    after = _status(view, set_, revision)
    if revisions.collided(outcome.failures):
        after.collision_count = (set_.status.collision_count or 0) + 1
    if after != set_.status:
        yield status_patch(DAEMON_SETS, envelope, _written(after))


def _status(view: View, set_: DaemonSet, revision: str) -> DaemonSetStatus:
    mine = [
        pod for pod in ownership.controlled(view.of[PODS], set_.envelope) if set_.selector.matches(pod.labels)
    ]
    daemons = daemonset_nodes.by_node(mine)
    status = DaemonSetStatus(
        observed_generation=set_.envelope.generation, collision_count=set_.status.collision_count
    )
    for node, (run, _) in _places(view, set_).items():
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
        status.number_available += ready and pods.is_available(pod, set_.spec.min_ready_seconds, view.now)
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


# ---- Triggers ------------------------------------------------------------------------------


def _gathered(_change: Change, view: View, key: Key) -> float:
    """Return the seconds until a change of a Pod is processed: a DaemonSet of thousands is not recounted for each."""
    envelope = view.of[DAEMON_SETS].get(*key)
    if envelope is None:
        return 0.0
    return min(decode(envelope.status, DaemonSetStatus).desired_number_scheduled / POD_PACE, POD_SECONDS)


def _node(change: Change, view: View) -> Iterable[Key]:
    """Return all DaemonSets of the space when a node appears, disappears, or its labels or spec change."""
    old, new = change.old, change.new
    if VIRTUAL_NODE in standing(change).labels:
        return ()
    if old is not None and new is not None and old.labels == new.labels and old.spec == new.spec:
        return ()
    return [key_of(each) for each in everywhere(view, DAEMON_SETS, standing(change).tenant)]


def daemon_sets() -> Controller:
    """Return the controller."""
    claimants = claimant(DAEMON_SETS)
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
