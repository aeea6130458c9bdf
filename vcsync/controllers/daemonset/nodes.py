"""Computes missing and surplus daemons of a DaemonSet's nodes, and the daemons that an update replaces. Pure.

Behaviour: `podsShouldBeOnNode` and `rollingUpdate` of Kubernetes' `pkg/controller/daemon`.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from vcsync.controllers.daemonset.objects import REVISION_LABEL, DaemonSet, node_of
from vcsync.controllers.framework import pods
from vcsync.objects.envelope import Envelope

Daemons = Mapping[str, Sequence[Envelope]]
"""The Pods of a DaemonSet by the node that they run on or are intended for."""


class DaemonSetState(Struct, frozen=True):
    """The state of one DaemonSet.

    Attributes:
        set: the DaemonSet.
        places: for each existing node, whether a daemon should run there, and whether a running one may continue.
        daemons: its Pods.
        revision: suffix of the name of its current revision.
        now: UTC.
    """

    set: DaemonSet
    places: Mapping[str, tuple[bool, bool]]
    daemons: Daemons
    revision: str
    now: datetime

    def available(self, pod: Envelope) -> bool:
        """Return whether a Pod is available: ready for at least `minReadySeconds`."""
        return pods.is_available(pod, self.set.spec.min_ready_seconds, self.now)


class Wanted(Struct):
    """The next changes: nodes that need a Pod, and Pods to delete."""

    nodes: list[str] = []
    surplus: list[Envelope] = []

    def __bool__(self) -> bool:
        """Return whether there are any changes."""
        return bool(self.nodes or self.surplus)


def by_node(daemons: Iterable[Envelope]) -> dict[str, list[Envelope]]:
    """Group a DaemonSet's Pods by node, without Pods that have ended and are being deleted, and those without node."""
    found: dict[str, list[Envelope]] = {}
    for pod in daemons:
        ended = pod.deleting and pods.status(pod).phase in pods.FINISHED
        node = node_of(pod)
        if node and not ended:
            found.setdefault(node, []).append(pod)
    return found


def age_rank(pod: Envelope) -> tuple[object, ...]:
    """Return the sort key of a node's Pods, the first of which counts: bound ones first, then the oldest."""
    return not pods.spec(pod).node_name, pod.creation_timestamp, pod.name


def lacking(state: DaemonSetState, spared: set[str]) -> Wanted:
    """Return the changes that leave every node with exactly one daemon, or none.

    Args:
        state: the DaemonSet with its nodes and Pods.
        spared: UIDs of failed Pods that are kept for now.
    """
    wanted = Wanted()
    for node, (run, go_on) in state.places.items():
        here = state.daemons.get(node)
        if run and here is None:
            wanted.nodes.append(node)
        elif go_on and here is not None:
            _keep_one(state, node, here, wanted, spared)
        elif here is not None:
            wanted.surplus += [pod for pod in here if not pod.deleting]
    for name, strays in state.daemons.items():
        if name not in state.places:
            # No scheduler will bind these Pods, and the Pod garbage collector looks at bound ones only.
            wanted.surplus += [pod for pod in strays if not pods.spec(pod).node_name and not pod.deleting]
    return wanted


def _keep_one(
    state: DaemonSetState, node: str, here: Sequence[Envelope], wanted: Wanted, spared: set[str]
) -> None:
    standing = [pod for pod in here if not pod.deleting]
    ended = [pod for pod in standing if pods.status(pod).phase in pods.FINISHED]
    wanted.surplus += [pod for pod in ended if pod.uid not in spared]
    running = sorted((pod for pod in standing if pod not in ended), key=age_rank)
    if not state.set.surge(1):
        wanted.surplus += running[1:]
    elif not running and state.places[node][0]:
        wanted.nodes.append(node)
    elif len(running) > 1:
        wanted.surplus += _beyond_surge(state, running)


def _beyond_surge(state: DaemonSetState, running: Sequence[Envelope]) -> list[Envelope]:
    """Return whether a node may have two Pods: during an update with surge, while the new one is not ready."""
    new = [pod for pod in running if pod.labels.get(REVISION_LABEL) == state.revision]
    old = [pod for pod in running if pod not in new]
    surplus = [*new[1:], *old[1:]]
    replaced = new and old and (pods.ready_since(old[0]) is None or state.available(new[0]))
    return [*surplus, old[0]] if replaced else surplus


def updates(state: DaemonSetState) -> Wanted:
    """Return the next step of an update, within `maxUnavailable` or `maxSurge`."""
    wanting = [name for name, (run, _) in state.places.items() if run]
    desired = len(wanting)
    everywhere = {name: state.daemons.get(name, ()) for name in sorted({*state.daemons, *wanting})}
    surge, unavailable = state.set.surge(desired), state.set.unavailable(desired)
    if desired and not surge and not unavailable:
        unavailable = 1
    if surge:
        return _surging(state, everywhere, surge, desired)
    return Wanted(surplus=_replaced(state, everywhere, unavailable))


def _replaced(state: DaemonSetState, everywhere: Daemons, unavailable: int) -> list[Envelope]:
    missing = 0
    broken: list[Envelope] = []
    candidates: list[Envelope] = []
    for here in everywhere.values():
        new, old, clear = _one_of_each(state, here)
        if not clear or (new is None) == (old is None):
            # `lacking` creates the missing Pod.
            missing += 1
        elif new is not None:
            missing += not state.available(new)
        elif old is not None and not state.available(old):
            broken.append(old)
            missing += 1
        elif old is not None:
            candidates.append(old)
    return [*broken, *candidates[: max(unavailable - missing, 0)]]


def _surging(state: DaemonSetState, everywhere: Daemons, surge: int, desired: int) -> Wanted:
    wanted = Wanted()
    leaving: list[Envelope] = []
    candidates: list[str] = []
    added = available = 0
    for name, here in everywhere.items():
        new, old, clear = _one_of_each(state, here)
        if not clear:
            added += 1
            continue
        counted = old or new
        available += counted is not None and state.available(counted)
        if old is None:
            continue
        if new is not None:
            if state.available(new):
                wanted.surplus.append(old)
            else:
                added += 1
        elif not state.places.get(name, (False, False))[0]:
            (leaving if state.available(old) else wanted.surplus).append(old)
        elif not state.available(old):
            wanted.nodes.append(name)
        else:
            candidates.append(name)
    # A Pod that is no longer wanted on its node is deleted when enough others are available.
    wanted.surplus += leaving[: max(available - desired, 0)]
    wanted.nodes += candidates[: max(surge - added, 0)]
    return wanted


def _one_of_each(
    state: DaemonSetState, here: Iterable[Envelope]
) -> tuple[Envelope | None, Envelope | None, bool]:
    """Return a node's Pod of the current template and the one of an earlier; False if there are several of one kind."""
    new: list[Envelope] = []
    old: list[Envelope] = []
    for pod in here:
        if not pod.deleting:
            (new if state.set.is_updated(pod, state.revision) else old).append(pod)
    if len(new) > 1 or len(old) > 1:
        return None, None, False
    return next(iter(new), None), next(iter(old), None), True
