"""What a StatefulSet does next: fill its numbers, give up what is beyond them, replace what is old. Pure.

Behaviour: Kubernetes' `pkg/controller/statefulset` (`stateful_set_control.go`).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from vcsync.controllers import pods, statefulset_claims
from vcsync.controllers.mirror import namespace_of
from vcsync.controllers.plan import Action, Delete, Look, Patch
from vcsync.controllers.revisions import Revision
from vcsync.controllers.statefulset_objects import (
    POD_NAME_LABEL,
    REVISION_LABEL,
    StatefulSet,
    identity,
    new_pod,
)
from vcsync.kube.envelope import Envelope
from vcsync.kube.resources import PODS

Steps = list[Sequence[Action]]


class Crew(Struct, frozen=True):
    """A StatefulSet, its Pods by number, and the revisions that they are made of."""

    set: StatefulSet
    pods: Mapping[int, Envelope]
    current: Revision
    update: Revision

    @property
    def condemned(self) -> list[int]:
        """The numbers that it has no more, the last first."""
        return sorted((each for each in self.pods if each not in self.set.ordinals), reverse=True)

    def unavailable(self, ordinal: int, now: datetime) -> bool:
        """Whether a Pod does not serve: there is none, it is not ready for long enough, or it goes away."""
        pod = self.pods.get(ordinal)
        least = self.set.spec.min_ready_seconds
        return pod is None or pod.deleting or not pods.is_available(pod, least, now)

    def revision_for(self, ordinal: int) -> Revision:
        """Return what a missing Pod is made of."""
        start = self.set.ordinals.start
        strategy = self.set.spec.update_strategy
        if strategy.rolling_update is not None:
            first = self.set.partition
        else:
            first = self.set.status.current_replicas if self.set.rolling else 0
        return self.current if ordinal < start + first else self.update


def steps(look: Look, crew: Crew) -> Steps:
    """Return what to do about a set's Pods and their claims now."""
    if crew.set.parallel:
        return [*_filled_at_once(look, crew), *_given_up_at_once(look, crew), _replaced(look, crew)]
    found, waits = _filled_in_order(look, crew)
    if waits:
        return found
    more, waits = _given_up_in_order(look, crew)
    return [*found, *more] if waits else [*found, *more, _replaced(look, crew)]


# ---- The numbers that there shall be -------------------------------------------------------


def _filled_in_order(look: Look, crew: Crew) -> tuple[Steps, bool]:
    """Bring the first number in order that is not; later ones wait for it."""
    done: Steps = []
    for ordinal in crew.set.ordinals:
        pod = crew.pods.get(ordinal)
        if pod is None:
            return [*done, *_made(look, crew, [ordinal])], True
        phase = pods.status(pod).phase
        if phase in pods.FINISHED:
            return [*done, [] if pod.deleting else [_deletion(pod)]], True
        if phase == "Pending":
            done.append(statefulset_claims.missing(look, crew.set, ordinal))
            done.append(statefulset_claims.retained(look, crew.set, ordinal, pod))
        if phase != "Running" or crew.unavailable(ordinal, look.now):
            return done, True
        done.append(_put_right(look, crew, ordinal, pod))
    return done, False


def _filled_at_once(look: Look, crew: Crew) -> Steps:
    there = [(each, crew.pods[each]) for each in crew.set.ordinals if each in crew.pods]
    over = [pod for _, pod in there if pods.status(pod).phase in pods.FINISHED]
    pending = [each for each, pod in there if pods.status(pod).phase == "Pending"]
    return [
        [_deletion(pod) for pod in over if not pod.deleting],
        *_made(look, crew, [each for each in crew.set.ordinals if each not in crew.pods]),
        [action for each in pending for action in statefulset_claims.missing(look, crew.set, each)],
        [
            action
            for ordinal, pod in there
            if pod not in over
            for action in _put_right(look, crew, ordinal, pod)
        ],
    ]


def _made(look: Look, crew: Crew, ordinals: Iterable[int]) -> Steps:
    """Make Pods: first those whose claims stand, so that a claim that is refused holds up nobody else's."""
    possible = [each for each in ordinals if not statefulset_claims.hold_up(look, crew.set, each)]
    lacking = {each: statefulset_claims.missing(look, crew.set, each) for each in possible}
    retained = [one for each in possible for one in statefulset_claims.retained(look, crew.set, each, None)]
    return [
        [_creation(crew, each) for each in possible if not lacking[each]],
        [claim for claims in lacking.values() for claim in claims],
        [_creation(crew, each) for each in possible if lacking[each]],
        retained,
    ]


def _creation(crew: Crew, ordinal: int) -> Action:
    revision = crew.revision_for(ordinal)
    return new_pod(crew.set, ordinal, revision.template, revision.name)


def _put_right(look: Look, crew: Crew, ordinal: int, pod: Envelope) -> list[Action]:
    actions: list[Action] = [*statefulset_claims.retained(look, crew.set, ordinal, pod)]
    if pod.labels.get(POD_NAME_LABEL) != pod.name:
        metadata = {"uid": pod.uid, "labels": identity(crew.set, ordinal)}
        actions.append(Patch(PODS, namespace_of(pod), pod.name, {"metadata": metadata}))
    return actions


def _deletion(pod: Envelope) -> Delete:
    return Delete(PODS, namespace_of(pod), pod.name, pod.uid)


# ---- The numbers that there shall be no more -----------------------------------------------


def _given_up_in_order(look: Look, crew: Crew) -> tuple[Steps, bool]:
    """Give up the last Pod, once those that stay and those behind it are well; a sick one need not wait for itself."""
    condemned = crew.condemned
    if not condemned:
        return [], False
    retained = _condemned_claims(look, crew)
    everyone = [*crew.set.ordinals, *reversed(condemned)]
    sick = next((each for each in everyone if crew.unavailable(each, look.now)), None)
    last = condemned[0]
    pod = crew.pods[last]
    if pod.deleting or (crew.unavailable(last, look.now) and last != sick):
        return [retained], True
    return [retained, [_deletion(pod)]], True


def _given_up_at_once(look: Look, crew: Crew) -> Steps:
    going = [crew.pods[each] for each in crew.condemned if not crew.pods[each].deleting]
    return [_condemned_claims(look, crew), [_deletion(pod) for pod in going]]


def _condemned_claims(look: Look, crew: Crew) -> list[Action]:
    return [
        patch
        for each in crew.condemned
        for patch in statefulset_claims.retained(look, crew.set, each, crew.pods[each])
    ]


# ---- Earlier templates ---------------------------------------------------------------------


def _replaced(look: Look, crew: Crew) -> list[Action]:
    """Take away Pods of earlier templates, the last first, so that they come back of the present one."""
    if not crew.set.rolling:
        return []
    targets = list(reversed(crew.set.ordinals[crew.set.partition :]))
    at_once = crew.set.unavailable
    if at_once is not None:
        away = sum(crew.unavailable(each, look.now) for each in crew.set.ordinals)
        old = [each for each in targets if _is_old(crew, each)]
        return [_deletion(crew.pods[each]) for each in old[: max(at_once - away, 0)]]
    for each in targets:
        if _is_old(crew, each):
            return [_deletion(crew.pods[each])]
        if crew.unavailable(each, look.now):
            return []
    return []


def _is_old(crew: Crew, ordinal: int) -> bool:
    pod = crew.pods.get(ordinal)
    return pod is not None and not pod.deleting and pod.labels.get(REVISION_LABEL) != crew.update.name
