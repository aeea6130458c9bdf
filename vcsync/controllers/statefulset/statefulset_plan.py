"""StatefulSets: numbered Pods with their own claims, one after another. Pure.

Behaviour: Kubernetes' `pkg/controller/statefulset`. Each reconcile takes one step; changes of the Pods trigger the next one.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct

from vcsync.controllers.framework import controller_revisions as revisions
from vcsync.controllers.framework import ownership, pods
from vcsync.controllers.framework.event_handlers import claimant, gathering, own, owner, standing
from vcsync.controllers.framework.mirror import Key, key_of, namespace_of
from vcsync.controllers.framework.plan import (
    NOTHING,
    Action,
    Controller,
    Create,
    Delete,
    Emit,
    Outcome,
    Patch,
    Plan,
    View,
    Watch,
    status_patch,
)
from vcsync.controllers.statefulset import claims as statefulset_claims
from vcsync.controllers.statefulset import steps as statefulset_steps
from vcsync.controllers.statefulset.objects import (
    POD_NAME_LABEL,
    REVISION_LABEL,
    StatefulSet,
    StatefulSetStatus,
    ordinal_of,
    read_stateful_set,
)
from vcsync.controllers.statefulset.steps import NumberedPods
from vcsync.kube.cache import Change
from vcsync.kube.errors import AlreadyExists
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import (
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
)
from vcsync.objects.envelope import Envelope
from vcsync.patterns.linear import linear

NAME = "statefulset-controller"


class _Revisions(Struct, frozen=True):
    """Names of the current and the update revision."""

    current: str
    update: str


def plan(view: View, key: Key) -> Plan:
    """Decide on the next step of a StatefulSet."""
    envelope = view.of[STATEFUL_SETS].get(*key)
    if envelope is None:
        return NOTHING
    set_ = read_stateful_set(envelope)
    everyone = [pod for pod in view.of[PODS].within(*key[:2]) if ordinal_of(pod, key.name) is not None]
    mine, claims = ownership.claim(STATEFUL_SETS, envelope, set_.selector, PODS, everyone)
    matching = [
        each for each in view.of[CONTROLLER_REVISIONS].within(*key[:2]) if set_.selector.matches(each.labels)
    ]
    kept, adoptions = ownership.claim(STATEFUL_SETS, envelope, set_.selector, CONTROLLER_REVISIONS, matching)
    history = revisions.history(
        STATEFUL_SETS, envelope, set_.template, kept, set_.status.collision_count or 0
    )
    current = history.named(set_.status.current_revision)
    named = _Revisions(current.name, history.update.name)
    finish = partial(_finish, key, named)
    again = pods.ripe_in(mine, set_.spec.min_ready_seconds, view.now)
    if envelope.deleting:
        return Plan([], finish, again)
    by_number = {number: pod for pod in mine if (number := ordinal_of(pod, key.name)) is not None}
    numbered = NumberedPods(set_, by_number, current, history.update)
    live = [current.name, history.update.name, *(pod.labels.get(REVISION_LABEL, "") for pod in mine)]
    steps: list[Sequence[Action]] = [claims, adoptions, history.actions]
    steps += statefulset_steps.steps(view, numbered)
    if statefulset_steps.took_a_burst(steps):
        again = 0.0
    steps.append(revisions.superfluous(history.kept, live, set_.spec.revision_history_limit))
    conflicts = _conflicts(view, numbered) if set_.claims else []
    return Plan([*steps, conflicts], finish, again)


def _conflicts(view: View, numbered: NumberedPods) -> list[Action]:
    """Report claims with other controllers, as long as the set's owner references are being removed from them."""
    found: list[Action] = []
    for ordinal, pod in numbered.pods.items():
        if not statefulset_claims.retained(view, numbered.set, ordinal, pod):
            continue
        for name in statefulset_claims.conflicting(view, numbered.set, ordinal, pod):
            message = (
                f"PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, "
                "the retention policy is ignored for this claim"
            )
            found.append(Emit(_about(numbered.set.envelope), "Warning", "ConflictingController", message))
    return found


# ---- The status and Events -----------------------------------------------------------------


def _finish(key: Key, named: _Revisions, view: View, outcome: Outcome) -> Iterable[Action]:
    envelope = view.of[STATEFUL_SETS].get(*key)
    if envelope is None:
        return
    yield from _events(envelope, outcome)
    set_ = read_stateful_set(envelope)
    after = _status(view, set_, named)
    if revisions.collided(outcome.failures):
        after.collision_count = (set_.status.collision_count or 0) + 1
    if after != set_.status:
        yield status_patch(STATEFUL_SETS, envelope, _written(after))


def _status(view: View, set_: StatefulSet, named: _Revisions) -> StatefulSetStatus:
    envelope, least = set_.envelope, set_.spec.min_ready_seconds
    mine = [
        pod
        for pod in ownership.controlled(view.of[PODS], envelope)
        if set_.selector.matches(pod.labels) and ordinal_of(pod, envelope.name) is not None
    ]
    ready = [pod for pod in mine if pods.status(pod).phase == "Running" and pods.ready_since(pod) is not None]
    standing = [pod.labels.get(REVISION_LABEL) for pod in mine if not pod.deleting]
    status = StatefulSetStatus(
        observed_generation=envelope.generation,
        replicas=len(mine),
        ready_replicas=len(ready),
        available_replicas=sum(pods.is_available(pod, least, view.now) for pod in ready),
        current_replicas=standing.count(named.current),
        updated_replicas=standing.count(named.update),
        current_revision=named.current,
        update_revision=named.update,
        collision_count=set_.status.collision_count or 0,
    )
    wanted = set_.spec.replicas
    if set_.rolling and (status.updated_replicas, status.ready_replicas, status.replicas) == (wanted,) * 3:
        status.current_replicas = status.updated_replicas
        status.current_revision = status.update_revision
    return status


def _written(status: StatefulSetStatus) -> dict[str, object]:
    return {
        "observedGeneration": status.observed_generation or None,
        "replicas": status.replicas,
        "readyReplicas": status.ready_replicas or None,
        "availableReplicas": status.available_replicas,
        "currentReplicas": status.current_replicas or None,
        "updatedReplicas": status.updated_replicas or None,
        "currentRevision": status.current_revision,
        "updateRevision": status.update_revision,
        "collisionCount": status.collision_count,
    }


def _about(envelope: Envelope) -> ObjectRef:
    return ObjectRef("apps/v1", "StatefulSet", envelope.name, namespace_of(envelope), envelope.uid)


def _events(envelope: Envelope, outcome: Outcome) -> Iterable[Emit]:
    about = _about(envelope)
    for action in outcome.done:
        for verb, what in _deeds(action, envelope.name):
            end = "success" if what.startswith("Claim") else "successful"
            yield Emit(about, "Normal", f"Successful{verb}", f"{verb} {what} {end}")
    for failure in outcome.failures:
        if isinstance(failure.error, AlreadyExists):
            continue
        for verb, what in _deeds(failure.action, envelope.name):
            what_ = what.replace(" Pod ", " for Pod ", 1) if what.startswith("Claim") else what
            yield Emit(about, "Warning", f"Failed{verb}", f"{verb} {what_} failed error: {failure.said}")


def _deeds(action: Action, set_name: str) -> Iterable[tuple[str, str]]:
    """Return the text of an action in Events: its verb and its object."""
    where = f"in StatefulSet {set_name}"
    if isinstance(action, Create) and action.resource is PODS:
        yield "Create", f"Pod {action.body['metadata']['name']} {where}"
    elif isinstance(action, Create) and action.resource is PERSISTENT_VOLUME_CLAIMS:
        name = action.body["metadata"]["name"]
        yield "Create", f"Claim {name} Pod {set_name}-{name.rpartition('-')[2]} {where}"
    elif isinstance(action, Delete) and action.resource is PODS:
        yield "Delete", f"Pod {action.name} {where}"
    elif isinstance(action, Patch) and action.resource is PODS and _tells_identity(action):
        yield "Update", f"Pod {action.name} {where}"


def _tells_identity(action: Patch) -> bool:
    metadata = action.patch["metadata"] if isinstance(action.patch, dict) else {}
    return POD_NAME_LABEL in metadata.get("labels", {})


# ---- Triggers ------------------------------------------------------------------------------


_NUMBERED = linear("-[0-9]+$")
_claimants = claimant(STATEFUL_SETS)
_owners = owner(STATEFUL_SETS.kind, STATEFUL_SETS.group)


def _pods(change: Change, view: View) -> Iterable[Key]:
    """Return the set of a Pod, past and current, or the sets that may adopt a numbered orphan."""
    numbered = _NUMBERED.search(standing(change).name) is not None
    return (_claimants if numbered else _owners)(change, view)


def _gone_claims(change: Change, view: View) -> Iterable[Key]:
    """Return the sets that may wait for a claim to be deleted before they create a Pod of the same number."""
    if change.new is not None or change.old is None:
        return ()
    claim, sets = change.old, view.of[STATEFUL_SETS]
    # The name is that of a template, of a set, and a number. The first two may contain dashes.
    parts = claim.name.split("-")[:-1]
    keys = (Key(*key_of(claim)[:2], "-".join(parts[at:])) for at in range(1, len(parts)))
    return [key for key in keys if sets.get(*key) is not None]


STATEFUL_SET = Controller(
    NAME,
    (
        Watch(STATEFUL_SETS, own),
        Watch(PODS, _pods, gathering(pace=4000.0, most=1.0)),
        Watch(PERSISTENT_VOLUME_CLAIMS, _gone_claims),
    ),
    plan,
    (CONTROLLER_REVISIONS,),
)
