"""StatefulSets: Pods with numbers and claims of their own, one after another. Pure.

Behaviour: Kubernetes' `pkg/controller/statefulset`. Each look takes the next step; the Pods' changes ask for another one.
"""

import re
from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct

from vcsync.controllers import owning, pods, revisions, statefulset_claims, statefulset_steps
from vcsync.controllers.mirror import Key, key_of, namespace_of
from vcsync.controllers.plan import (
    NOTHING,
    Action,
    Controller,
    Create,
    Delete,
    Emit,
    Look,
    Outcome,
    Patch,
    Plan,
    Watch,
    status_patch,
)
from vcsync.controllers.statefulset_objects import (
    POD_NAME_LABEL,
    REVISION_LABEL,
    StatefulSet,
    StatefulSetStatus,
    ordinal_of,
    read_stateful_set,
)
from vcsync.controllers.statefulset_steps import Crew
from vcsync.controllers.waking import claimant, own, owner, standing
from vcsync.kube.cache import Change
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import AlreadyExists
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import (
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
)

NAME = "statefulset-controller"


class _Told(Struct, frozen=True):
    """What the status is told by: which revisions, and who is whose."""

    current: str
    update: str


def plan(look: Look, key: Key) -> Plan:
    """Decide on the next step of a StatefulSet."""
    envelope = look.of[STATEFUL_SETS].get(*key)
    if envelope is None:
        return NOTHING
    set_ = read_stateful_set(envelope)
    everyone = [pod for pod in look.of[PODS].within(*key[:2]) if ordinal_of(pod, key.name) is not None]
    mine, claims = owning.claim(STATEFUL_SETS, envelope, set_.selector, PODS, everyone)
    matching = [
        each for each in look.of[CONTROLLER_REVISIONS].within(*key[:2]) if set_.selector.matches(each.labels)
    ]
    kept, adoptions = owning.claim(STATEFUL_SETS, envelope, set_.selector, CONTROLLER_REVISIONS, matching)
    history = revisions.history(
        STATEFUL_SETS, envelope, set_.template, kept, set_.status.collision_count or 0
    )
    current = history.named(set_.status.current_revision)
    told = _Told(current.name, history.update.name)
    finish = partial(_finish, key, told)
    again = pods.ripe_in(mine, set_.spec.min_ready_seconds, look.now)
    if envelope.deleting:
        return Plan([], finish, again)
    by_number = {number: pod for pod in mine if (number := ordinal_of(pod, key.name)) is not None}
    crew = Crew(set_, by_number, current, history.update)
    live = [current.name, history.update.name, *(pod.labels.get(REVISION_LABEL, "") for pod in mine)]
    steps: list[Sequence[Action]] = [claims, adoptions, history.actions]
    steps += statefulset_steps.steps(look, crew)
    steps.append(revisions.superfluous(history.kept, live, set_.spec.revision_history_limit))
    conflicts = _conflicts(look, crew) if set_.claims else []
    return Plan([*steps, conflicts], finish, again)


def _conflicts(look: Look, crew: Crew) -> list[Action]:
    """Report claims that others control, as long as our owner references are being taken off them."""
    found: list[Action] = []
    for ordinal, pod in crew.pods.items():
        if not statefulset_claims.retained(look, crew.set, ordinal, pod):
            continue
        for name in statefulset_claims.conflicting(look, crew.set, ordinal, pod):
            message = (
                f"PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, "
                "the retention policy is ignored for this claim"
            )
            found.append(Emit(_about(crew.set.envelope), "Warning", "ConflictingController", message))
    return found


# ---- The status and Events -----------------------------------------------------------------


def _finish(key: Key, told: _Told, look: Look, outcome: Outcome) -> Iterable[Action]:
    envelope = look.of[STATEFUL_SETS].get(*key)
    if envelope is None:
        return
    yield from _events(envelope, outcome)
    set_ = read_stateful_set(envelope)
    after = _status(look, set_, told)
    if revisions.collided(outcome.failures):
        after.collision_count = (set_.status.collision_count or 0) + 1
    if after != set_.status:
        yield status_patch(STATEFUL_SETS, envelope, _written(after))


def _status(look: Look, set_: StatefulSet, told: _Told) -> StatefulSetStatus:
    envelope, least = set_.envelope, set_.spec.min_ready_seconds
    mine = [
        pod
        for pod in owning.controlled(look.of[PODS], envelope)
        if set_.selector.matches(pod.labels) and ordinal_of(pod, envelope.name) is not None
    ]
    ready = [pod for pod in mine if pods.status(pod).phase == "Running" and pods.ready_since(pod) is not None]
    standing = [pod.labels.get(REVISION_LABEL) for pod in mine if not pod.deleting]
    status = StatefulSetStatus(
        observed_generation=envelope.generation,
        replicas=len(mine),
        ready_replicas=len(ready),
        available_replicas=sum(pods.is_available(pod, least, look.now) for pod in ready),
        current_replicas=standing.count(told.current),
        updated_replicas=standing.count(told.update),
        current_revision=told.current,
        update_revision=told.update,
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
    """What is reported of an action: its verb, and what it was done to."""
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


# ---- What asks for a look ------------------------------------------------------------------


_claimants = claimant(STATEFUL_SETS, lambda envelope: read_stateful_set(envelope).selector)
_owners = owner(STATEFUL_SETS.kind, STATEFUL_SETS.group)


def _pods(change: Change, look: Look) -> Iterable[Key]:
    """Whose Pod it is, or was; of one that nobody controls and that has a number, whoever may adopt it."""
    numbered = re.search(r"-[0-9]+$", standing(change).name) is not None
    return (_claimants if numbered else _owners)(change, look)


def _gone_claims(change: Change, look: Look) -> Iterable[Key]:
    """Which sets may wait for a claim to go before they make a Pod of the same number."""
    if change.new is not None or change.old is None:
        return ()
    claim = change.old
    sets = look.of[STATEFUL_SETS].within(claim.tenant, namespace_of(claim))
    prefix = claim.name.rpartition("-")[0]
    return [key_of(each) for each in sets if prefix.endswith(f"-{each.name}")]


STATEFUL_SET = Controller(
    NAME,
    (
        Watch(STATEFUL_SETS, own),
        Watch(PODS, _pods),
        Watch(PERSISTENT_VOLUME_CLAIMS, _gone_claims),
    ),
    plan,
    (CONTROLLER_REVISIONS,),
)
