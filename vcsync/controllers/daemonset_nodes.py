"""Which daemons a DaemonSet's nodes lack and have too many of, and which an update replaces. Pure.

Behaviour: `podsShouldBeOnNode` and `rollingUpdate` of Kubernetes' `pkg/controller/daemon`.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from vcsync.controllers import pods
from vcsync.controllers.daemonset_objects import REVISION_LABEL, DaemonSet, node_of
from vcsync.kube.envelope import Envelope

Daemons = Mapping[str, Sequence[Envelope]]
"""The Pods of a DaemonSet by the node that they are on or meant for."""


class Scene(Struct, frozen=True):
    """All that one look at a DaemonSet decides by.

    Attributes:
        set: the DaemonSet.
        places: for each node there is, whether a daemon is to run there, and whether one that does may go on.
        daemons: its Pods.
        revision: end of the name of its present revision.
        now: UTC.
    """

    set: DaemonSet
    places: Mapping[str, tuple[bool, bool]]
    daemons: Daemons
    revision: str
    now: datetime

    def available(self, pod: Envelope) -> bool:
        """Whether a Pod has been ready for long enough."""
        return pods.is_available(pod, self.set.spec.min_ready_seconds, self.now)


class Wanted(Struct):
    """What is to be done: nodes that need a Pod, Pods to delete."""

    nodes: list[str] = []
    surplus: list[Envelope] = []

    def __bool__(self) -> bool:
        """Whether it is anything."""
        return bool(self.nodes or self.surplus)


def by_node(daemons: Iterable[Envelope]) -> dict[str, list[Envelope]]:
    """Sort a DaemonSet's Pods by node. Left out: those that have ended and are going, those of no node."""
    found: dict[str, list[Envelope]] = {}
    for pod in daemons:
        ended = pod.deleting and pods.status(pod).phase in pods.FINISHED
        node = node_of(pod)
        if node and not ended:
            found.setdefault(node, []).append(pod)
    return found


def age_rank(pod: Envelope) -> tuple[object, ...]:
    """Return what orders the Pods of a node, the first of which counts: bound ones first, then the oldest."""
    return not pods.spec(pod).node_name, pod.creation_timestamp, pod.name


def lacking(scene: Scene, spared: set[str]) -> Wanted:
    """Return what brings every node to one daemon, or to none.

    Args:
        scene: what there is.
        spared: UIDs of failed Pods that are left alone for now.
    """
    wanted = Wanted()
    for node, (run, go_on) in scene.places.items():
        here = scene.daemons.get(node)
        if run and here is None:
            wanted.nodes.append(node)
        elif go_on and here is not None:
            _keep_one(scene, node, here, wanted, spared)
        elif here is not None:
            wanted.surplus += [pod for pod in here if not pod.deleting]
    for name, strays in scene.daemons.items():
        if name not in scene.places:
            # Nobody will ever bind them, and who cleans up after nodes looks at bound ones only.
            wanted.surplus += [pod for pod in strays if not pods.spec(pod).node_name and not pod.deleting]
    return wanted


def _keep_one(scene: Scene, node: str, here: Sequence[Envelope], wanted: Wanted, spared: set[str]) -> None:
    standing = [pod for pod in here if not pod.deleting]
    ended = [pod for pod in standing if pods.status(pod).phase in pods.FINISHED]
    wanted.surplus += [pod for pod in ended if pod.uid not in spared]
    running = sorted((pod for pod in standing if pod not in ended), key=age_rank)
    if not scene.set.surge(1):
        wanted.surplus += running[1:]
    elif not running and scene.places[node][0]:
        wanted.nodes.append(node)
    elif len(running) > 1:
        wanted.surplus += _beyond_surge(scene, running)


def _beyond_surge(scene: Scene, running: Sequence[Envelope]) -> list[Envelope]:
    """Of an update that adds first, a node may have one Pod of each template as long as the new one is not ready."""
    new = [pod for pod in running if pod.labels.get(REVISION_LABEL) == scene.revision]
    old = [pod for pod in running if pod not in new]
    surplus = [*new[1:], *old[1:]]
    replaced = new and old and (pods.ready_since(old[0]) is None or scene.available(new[0]))
    return [*surplus, old[0]] if replaced else surplus


def updates(scene: Scene) -> Wanted:
    """Return the next step of an update: no more than it may take away, or add, at once."""
    wanting = [name for name, (run, _) in scene.places.items() if run]
    desired = len(wanting)
    everywhere = {name: scene.daemons.get(name, ()) for name in sorted({*scene.daemons, *wanting})}
    surge, unavailable = scene.set.surge(desired), scene.set.unavailable(desired)
    if desired and not surge and not unavailable:
        unavailable = 1
    if surge:
        return _surging(scene, everywhere, surge, desired)
    return Wanted(surplus=_replaced(scene, everywhere, unavailable))


def _replaced(scene: Scene, everywhere: Daemons, unavailable: int) -> list[Envelope]:
    missing = 0
    broken: list[Envelope] = []
    candidates: list[Envelope] = []
    for here in everywhere.values():
        new, old, clear = _one_of_each(scene, here)
        if not clear or (new is None) == (old is None):
            missing += 1  # for the other function to put right
        elif new is not None:
            missing += not scene.available(new)
        elif old is not None and not scene.available(old):
            broken.append(old)
            missing += 1
        elif old is not None:
            candidates.append(old)
    return [*broken, *candidates[: max(unavailable - missing, 0)]]


def _surging(scene: Scene, everywhere: Daemons, surge: int, desired: int) -> Wanted:
    wanted = Wanted()
    leaving: list[Envelope] = []
    candidates: list[str] = []
    added = available = 0
    for name, here in everywhere.items():
        new, old, clear = _one_of_each(scene, here)
        if not clear:
            added += 1
            continue
        counted = old or new
        available += counted is not None and scene.available(counted)
        if old is None:
            continue
        if new is not None:
            if scene.available(new):
                wanted.surplus.append(old)
            else:
                added += 1
        elif not scene.places.get(name, (False, False))[0]:
            (leaving if scene.available(old) else wanted.surplus).append(old)
        elif not scene.available(old):
            wanted.nodes.append(name)
        else:
            candidates.append(name)
    # Where it is not wanted any more, it goes when enough others are there.
    wanted.surplus += leaving[: max(available - desired, 0)]
    wanted.nodes += candidates[: max(surge - added, 0)]
    return wanted


def _one_of_each(scene: Scene, here: Iterable[Envelope]) -> tuple[Envelope | None, Envelope | None, bool]:
    """Return a node's Pod of the present template, the one of an earlier, and False if there are more of a sort."""
    new: list[Envelope] = []
    old: list[Envelope] = []
    for pod in here:
        if not pod.deleting:
            (new if scene.set.is_updated(pod, scene.revision) else old).append(pod)
    if len(new) > 1 or len(old) > 1:
        return None, None, False
    return next(iter(new), None), next(iter(old), None), True
