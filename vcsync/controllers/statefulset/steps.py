"""The next steps of a StatefulSet: create missing Pods, delete surplus ones, replace outdated ones. Pure.

Behaviour: Kubernetes' `pkg/controller/statefulset` (`stateful_set_control.go`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice

from msgspec import Struct

from vcsync.controllers.framework import pods
from vcsync.controllers.framework.controller_revisions import Revision
from vcsync.controllers.framework.mirror import namespace_of
from vcsync.controllers.framework.plan import Action, Create, Delete, Patch, View
from vcsync.controllers.statefulset import claims as statefulset_claims
from vcsync.controllers.statefulset.objects import (
    POD_NAME_LABEL,
    REVISION_LABEL,
    StatefulSet,
    identity,
    new_pod,
)
from vcsync.kube.resources import PODS
from vcsync.objects.envelope import Envelope

Steps = list[Sequence[Action]]

BURST = 500
"""Most Pods that one reconcile creates or deletes, and most claims that it creates, as upstream's largest batch.

`replicas` may be two thousand million, so nothing here lists the numbers of a set: existing Pods and the next missing
numbers are looked at only.
"""


class NumberedPods(Struct, frozen=True):
    """A StatefulSet, its Pods by number, and the revisions of their templates."""

    set: StatefulSet
    pods: Mapping[int, Envelope]
    current: Revision
    update: Revision

    @property
    def present(self) -> list[int]:
        """Return the wanted numbers that have Pods, in order."""
        return sorted(each for each in self.pods if each in self.set.ordinals)

    def missing(self) -> Iterator[int]:
        """Return the wanted numbers without Pods, in order. There may be thousands of millions."""
        return (each for each in self.set.ordinals if each not in self.pods)

    @property
    def condemned(self) -> list[int]:
        """Return the numbers of surplus Pods, the last first."""
        return sorted((each for each in self.pods if each not in self.set.ordinals), reverse=True)

    def unavailable(self, ordinal: int, now: datetime) -> bool:
        """Return whether a Pod is unavailable: missing, not ready for long enough, or being deleted."""
        pod = self.pods.get(ordinal)
        least = self.set.spec.min_ready_seconds
        return pod is None or pod.deleting or not pods.is_available(pod, least, now)

    def revision_for(self, ordinal: int) -> Revision:
        """Return the template of a missing Pod."""
        start = self.set.ordinals.start
        strategy = self.set.spec.update_strategy
        if strategy.rolling_update is not None:
            first = self.set.partition
        else:
            first = self.set.status.current_replicas if self.set.rolling else 0
        return self.current if ordinal < start + first else self.update


def steps(view: View, numbered: NumberedPods) -> Steps:
    """Return the next steps for a set's Pods and their claims."""
    if numbered.set.parallel:
        return [
            *_filled_in_parallel(view, numbered),
            *_deleted_in_parallel(view, numbered),
            _replaced(view, numbered),
        ]
    found, waits = _filled_in_order(view, numbered)
    if waits:
        return found
    more, waits = _deleted_in_order(view, numbered)
    return [*found, *more] if waits else [*found, *more, _replaced(view, numbered)]


def took_a_burst(found: Iterable[Sequence[Action]]) -> bool:
    """Return whether a step has as many actions as one may have, so that the next reconcile may have more."""
    return any(len(step) >= BURST for step in found)


# ---- Wanted numbers --------------------------------------------------------------------------


def _filled_in_order(view: View, numbered: NumberedPods) -> tuple[Steps, bool]:
    """Create or repair the first Pod in order that needs it; later ones wait for it."""
    done: Steps = []
    for ordinal in numbered.set.ordinals:
        pod = numbered.pods.get(ordinal)
        if pod is None:
            return [*done, *_made(view, numbered, [ordinal])], True
        phase = pods.status(pod).phase
        if phase in pods.FINISHED:
            return [*done, [] if pod.deleting else [_deletion(pod)]], True
        if phase == "Pending":
            done.append(statefulset_claims.missing(view, numbered.set, ordinal)[:BURST])
            done.append(statefulset_claims.retained(view, numbered.set, ordinal, pod))
        if phase != "Running" or numbered.unavailable(ordinal, view.now):
            return done, True
        done.append(_put_right(view, numbered, ordinal, pod))
    return done, False


def _filled_in_parallel(view: View, numbered: NumberedPods) -> Steps:
    there = [(each, numbered.pods[each]) for each in numbered.present]
    over = {each for each, pod in there if pods.status(pod).phase in pods.FINISHED}
    pending = [each for each, pod in there if pods.status(pod).phase == "Pending"]
    lacking = (claim for each in pending for claim in statefulset_claims.missing(view, numbered.set, each))
    return [
        [_deletion(pod) for each, pod in there if each in over and not pod.deleting],
        *_made(view, numbered, numbered.missing()),
        list(islice(lacking, BURST)),
        [
            action
            for ordinal, pod in there
            if ordinal not in over
            for action in _put_right(view, numbered, ordinal, pod)
        ],
    ]


def _made(view: View, numbered: NumberedPods, ordinals: Iterable[int]) -> Steps:
    """Create Pods, first those whose claims exist, so that a refused claim delays no other Pod."""
    possible = (each for each in ordinals if not statefulset_claims.hold_up(view, numbered.set, each))
    lacking: dict[int, list[Create]] = {}
    room = BURST
    for each in islice(possible, BURST):
        claims = statefulset_claims.missing(view, numbered.set, each)
        # The first Pod comes even if it lacks more claims than that: it is pending until it has the others.
        if lacking and len(claims) > room:
            break
        lacking[each] = claims[:room]
        room -= len(lacking[each])
    retained = [
        one for each in lacking for one in statefulset_claims.retained(view, numbered.set, each, None)
    ]
    return [
        [_creation(numbered, each) for each, claims in lacking.items() if not claims],
        [claim for claims in lacking.values() for claim in claims],
        [_creation(numbered, each) for each, claims in lacking.items() if claims],
        retained,
    ]


def _creation(numbered: NumberedPods, ordinal: int) -> Create:
    revision = numbered.revision_for(ordinal)
    return new_pod(numbered.set, ordinal, revision.template, revision.name)


def _put_right(view: View, numbered: NumberedPods, ordinal: int, pod: Envelope) -> list[Action]:
    actions: list[Action] = [*statefulset_claims.retained(view, numbered.set, ordinal, pod)]
    if pod.labels.get(POD_NAME_LABEL) != pod.name:
        metadata = {"uid": pod.uid, "labels": identity(numbered.set, ordinal)}
        actions.append(Patch(PODS, namespace_of(pod), pod.name, {"metadata": metadata}))
    return actions


def _deletion(pod: Envelope) -> Delete:
    return Delete(PODS, namespace_of(pod), pod.name, pod.uid)


# ---- Surplus numbers -------------------------------------------------------------------------


def _deleted_in_order(view: View, numbered: NumberedPods) -> tuple[Steps, bool]:
    """Delete the last Pod once the remaining and later Pods are healthy; an unhealthy one need not wait for itself."""
    condemned = numbered.condemned
    if not condemned:
        return [], False
    retained = _condemned_claims(view, numbered)
    everyone = chain(numbered.set.ordinals, reversed(condemned))
    sick = next((each for each in everyone if numbered.unavailable(each, view.now)), None)
    last = condemned[0]
    pod = numbered.pods[last]
    if pod.deleting or (numbered.unavailable(last, view.now) and last != sick):
        return [retained], True
    return [retained, [_deletion(pod)]], True


def _deleted_in_parallel(view: View, numbered: NumberedPods) -> Steps:
    going = [numbered.pods[each] for each in numbered.condemned if not numbered.pods[each].deleting]
    return [_condemned_claims(view, numbered), [_deletion(pod) for pod in going[:BURST]]]


def _condemned_claims(view: View, numbered: NumberedPods) -> list[Action]:
    return [
        patch
        for each in numbered.condemned
        for patch in statefulset_claims.retained(view, numbered.set, each, numbered.pods[each])
    ]


# ---- Earlier templates ---------------------------------------------------------------------


def _replaced(view: View, numbered: NumberedPods) -> list[Action]:
    """Delete Pods of earlier templates, the last first, so that they are created from the current one."""
    if not numbered.set.rolling:
        return []
    targets = numbered.set.ordinals[numbered.set.partition :]
    at_once = numbered.set.unavailable
    if at_once is not None:
        present = numbered.present
        available = sum(not numbered.unavailable(each, view.now) for each in present)
        away = len(numbered.set.ordinals) - available
        old = [each for each in reversed(present) if each in targets and _is_old(numbered, each)]
        return [_deletion(numbered.pods[each]) for each in old[: min(max(at_once - away, 0), BURST)]]
    for each in reversed(targets):
        if _is_old(numbered, each):
            return [_deletion(numbered.pods[each])]
        if numbered.unavailable(each, view.now):
            return []
    return []


def _is_old(numbered: NumberedPods, ordinal: int) -> bool:
    pod = numbered.pods.get(ordinal)
    return pod is not None and not pod.deleting and pod.labels.get(REVISION_LABEL) != numbered.update.name
