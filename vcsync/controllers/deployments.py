"""Deployments: rolling from one ReplicaSet to the next. Pure.

Behaviour: Kubernetes' `pkg/controller/deployment`. Each look takes one step further; the ReplicaSets' changes ask for the
next one.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vcsync.controllers import deployment_status, owning, pods, rollout
from vcsync.controllers.deployment_objects import (
    DESIRED_REPLICAS,
    HASH_LABEL,
    MAX_REPLICAS,
    NO_LIMIT,
    NOT_COPIED,
    REVISION,
    REVISION_HISTORY,
    Deployment,
    ReplicaSet,
    number,
    read_deployment,
    read_set,
    same_template,
    set_name,
    template_hash,
)
from vcsync.controllers.mirror import Key, namespace_of
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
from vcsync.controllers.waking import claimant, own, standing
from vcsync.kube.cache import Change
from vcsync.kube.envelope import untyped
from vcsync.kube.errors import AlreadyExists
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import DEPLOYMENTS, PODS, REPLICA_SETS

LONGEST_HISTORY = 2000
"""Characters of the annotation that lists a ReplicaSet's earlier revisions."""

Steps = list[Sequence[Action]]


class Family(Struct, frozen=True):
    """A Deployment and its ReplicaSets. `new`: that of the present template."""

    deployment: Deployment
    new: ReplicaSet | None
    old: list[ReplicaSet]

    @property
    def everyone(self) -> list[ReplicaSet]:
        """All of its ReplicaSets."""
        return [*self.old, *([self.new] if self.new else [])]


def plan(look: Look, key: Key) -> Plan:
    """Decide on the next step of a Deployment."""
    envelope = look.of[DEPLOYMENTS].get(*key)
    if envelope is None:
        return NOTHING
    deployment = read_deployment(envelope)
    mine, claims = owning.claim(
        DEPLOYMENTS,
        envelope,
        deployment.selector,
        REPLICA_SETS,
        look.of[REPLICA_SETS].within(key.tenant, key.namespace),
    )
    family = _family(deployment, [read_set(each) for each in mine])
    if envelope.deleting:
        return Plan((), partial(_finish, key, False))
    rolls = not deployment.spec.paused and not _was_scaled(family)
    steps: Steps = [claims, *_noted(family)]
    if not rolls:
        steps += _resized(family, rollout.scaled(deployment, family.new, family.old))
        steps += _refreshed(family)
        if deployment.spec.paused:
            steps += _cleared(family)
    elif deployment.rolling:
        steps += _roll(family, look)
    else:
        steps += _recreate(family, look)
    status = deployment_status.rolled(deployment, family.new, family.everyone, look.now)
    if rolls and deployment_status.complete(deployment, status):
        steps += _cleared(family)
    return Plan(
        steps,
        partial(_finish, key, rolls),
        deployment_status.overdue_in(deployment, status, look.now) if rolls else None,
    )


def _family(deployment: Deployment, sets: Sequence[ReplicaSet]) -> Family:
    ordered = sorted(sets, key=lambda each: each.age)
    new = next((each for each in ordered if same_template(each.template, deployment.template)), None)
    return Family(deployment, new, [each for each in ordered if each is not new])


def _was_scaled(family: Family) -> bool:
    """Whether an active ReplicaSet was sized for another number of Pods than is asked for now."""
    desired = [number(each.envelope, DESIRED_REPLICAS) for each in family.everyone if each.replicas > 0]
    return any(each is not None and each != family.deployment.spec.replicas for each in desired)


# ---- The steps of a rollout --------------------------------------------------------------


def _roll(family: Family, look: Look) -> Steps:
    deployment, new = family.deployment, family.new
    if new is None:
        return _made(family, look)
    sizes = rollout.grown(deployment, new, family.everyone)
    return _resized(family, sizes or rollout.shrunk(deployment, new, family.old))


def _recreate(family: Family, look: Look) -> Steps:
    active = [each for each in family.old if each.replicas > 0]
    if active:
        return _resized(family, [(each, 0) for each in active])
    left = [pod for each in family.old for pod in owning.controlled(look.of[PODS], each.envelope)]
    if any(pods.status(pod).phase not in pods.FINISHED for pod in left):
        return []
    if family.new is None:
        return _made(family, look)
    wanted = family.deployment.spec.replicas
    return _resized(family, [(family.new, wanted)] if family.new.replicas != wanted else [])


def _made(family: Family, look: Look) -> Steps:
    """Create the ReplicaSet of the present template, unless something else has its name."""
    deployment = family.deployment
    envelope, template = deployment.envelope, deployment.template
    hash_ = template_hash(template, deployment.status.collision_count)
    name, namespace = set_name(envelope.name, hash_), namespace_of(envelope)
    if look.of[REPLICA_SETS].get(envelope.tenant, namespace, name) is not None:
        return [[_collided(deployment)]]
    size = rollout.new_size(deployment, family.old, 0)
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: hash_}
    selector = untyped(envelope.spec).get("selector") or {}
    revision = max((each.revision for each in family.old), default=0) + 1
    body = {
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {**_copied(deployment), REVISION: str(revision), **_sized_for(deployment)},
            "ownerReferences": [owning.reference(DEPLOYMENTS, envelope)],
        },
        "spec": {
            "replicas": size,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: hash_},
            },
            "template": {**template, "metadata": {**metadata, "labels": labels}},
        },
    }
    steps: Steps = [[Create(REPLICA_SETS, namespace, body)]]
    if size:
        steps.append([_scaling(deployment, "up", name, 0, size)])
    return steps


def _collided(deployment: Deployment) -> Patch:
    count = (deployment.status.collision_count or 0) + 1
    return status_patch(DEPLOYMENTS, deployment.envelope, {"collisionCount": count})


def _resized(family: Family, sizes: rollout.Sizes) -> Steps:
    deployment = family.deployment
    steps: Steps = []
    for each, size in sizes:
        annotations = _sized_for(deployment)
        if size == each.replicas and annotations.items() <= each.envelope.annotations.items():
            continue
        patch = {"metadata": {"annotations": annotations}, "spec": {"replicas": size}}
        steps.append([_patch(each, patch)])
        if size != each.replicas:
            way = "up" if size > each.replicas else "down"
            steps.append([_scaling(deployment, way, each.name, each.replicas, size)])
    return steps


def _refreshed(family: Family) -> Steps:
    """Note in active ReplicaSets for how many Pods they are sized, else they would count as scaled for ever.

    That only the surge is another by now is noted when they are sized anew, as Kubernetes does.
    """
    annotations = _sized_for(family.deployment)
    wanted = family.deployment.spec.replicas
    outdated = [
        each
        for each in family.everyone
        if each.replicas and number(each.envelope, DESIRED_REPLICAS) != wanted
    ]
    return [[_patch(each, {"metadata": {"annotations": annotations}}) for each in outdated]]


def _cleared(family: Family) -> Steps:
    """Delete the oldest ReplicaSets beyond those that are kept for going back."""
    limit = family.deployment.spec.revision_history_limit
    kept = [each for each in family.old if not each.envelope.deleting]
    if limit == NO_LIMIT or len(kept) <= limit:
        return []
    kept.sort(key=lambda each: (each.revision, each.age))
    idle = [
        each
        for each in kept[: len(kept) - limit]
        if not each.status.replicas
        and not each.replicas
        and each.envelope.generation <= each.status.observed_generation
    ]
    return [
        [
            Delete(
                REPLICA_SETS,
                namespace_of(each.envelope),
                each.name,
                each.envelope.uid,
                propagation="Background",
            )
            for each in idle
        ]
    ]


def _noted(family: Family) -> Steps:
    """Bring annotations and revisions in line: the Deployment's onto its new ReplicaSet, the revision onto both."""
    deployment, new = family.deployment, family.new
    if new is None:
        return []
    steps: Steps = []
    present = new.envelope.annotations
    latest = max((each.revision for each in family.old), default=0) + 1
    wanted = _copied(deployment)
    if new.revision < latest:
        wanted[REVISION] = str(latest)
        if REVISION in present:
            wanted[REVISION_HISTORY] = _history(present.get(REVISION_HISTORY, ""), present[REVISION])
    change: dict[str, Any] = {}
    if not wanted.items() <= present.items():
        change["metadata"] = {"annotations": wanted}
    if new.min_ready_seconds != deployment.spec.min_ready_seconds:
        change["spec"] = {"minReadySeconds": deployment.spec.min_ready_seconds}
    if change:
        steps.append([_patch(new, change)])
    revision = wanted.get(REVISION, present.get(REVISION, ""))
    if revision and deployment.envelope.annotations.get(REVISION) != revision:
        steps.append([_told_revision(deployment, revision)])
    return steps


def _told_revision(deployment: Deployment, revision: str) -> Patch:
    envelope = deployment.envelope
    patch = {"metadata": {"uid": envelope.uid, "annotations": {REVISION: revision}}}
    return Patch(DEPLOYMENTS, namespace_of(envelope), envelope.name, patch)


def _history(history: str, revision: str) -> str:
    earlier = [each for each in history.split(",") if each]
    while earlier and len(",".join([*earlier, revision])) > LONGEST_HISTORY:
        earlier.pop(0)
    return ",".join([*earlier, revision])


def _copied(deployment: Deployment) -> dict[str, str]:
    annotations = deployment.envelope.annotations
    return {name: value for name, value in annotations.items() if name not in NOT_COPIED}


def _sized_for(deployment: Deployment) -> dict[str, str]:
    wanted = deployment.spec.replicas
    return {DESIRED_REPLICAS: str(wanted), MAX_REPLICAS: str(wanted + deployment.surge)}


def _patch(each: ReplicaSet, patch: dict[str, Any]) -> Patch:
    metadata = {"uid": each.envelope.uid, **patch.get("metadata", {})}
    return Patch(REPLICA_SETS, namespace_of(each.envelope), each.name, {**patch, "metadata": metadata})


def _about(deployment: Deployment) -> ObjectRef:
    envelope = deployment.envelope
    return ObjectRef("apps/v1", "Deployment", envelope.name, namespace_of(envelope), envelope.uid)


def _scaling(deployment: Deployment, way: str, name: str, before: int, after: int) -> Emit:
    message = f"Scaled {way} replica set {name} from {before} to {after}"
    return Emit(_about(deployment), "Normal", "ScalingReplicaSet", message)


# ---- The status --------------------------------------------------------------------------


def _finish(key: Key, rolls: bool, look: Look, outcome: Outcome) -> Iterable[Action]:
    envelope = look.of[DEPLOYMENTS].get(*key)
    if envelope is None:
        return
    before = read_deployment(envelope)
    failed = next((each for each in outcome.failures if isinstance(each.action, Create)), None)
    if failed is not None and isinstance(failed.error, AlreadyExists):
        yield _collided(before)
        return
    family = _family(before, [read_set(each) for each in owning.controlled(look.of[REPLICA_SETS], envelope)])
    conditions = before.status.conditions if envelope.deleting else deployment_status.paused(before, look.now)
    made = any(isinstance(each, Create) for each in outcome.done)
    news: tuple[str, str, str] | None = None
    if failed is not None and isinstance(failed.action, Create):
        name = failed.action.body["metadata"]["name"]
        message = f'Failed to create new replica set "{name}": {failed.said}'
        news = ("False", deployment_status.NOT_CREATED, message)
        yield Emit(_about(before), "Warning", deployment_status.NOT_CREATED, message)
    elif made and family.new:
        news = ("True", deployment_status.CREATED, f'Created new replica set "{family.new.name}"')
    elif family.new and deployment_status.find(conditions, deployment_status.PROGRESSING) is None:
        news = ("True", deployment_status.FOUND, f'Found new replica set "{family.new.name}"')
    if news and before.has_deadline and not envelope.deleting:
        new = deployment_status.condition(deployment_status.PROGRESSING, *news, look.now)
        conditions = deployment_status.with_condition(conditions, new)
    deployment = replace(before, status=replace(before.status, conditions=conditions))
    judge = deployment_status.rolled if rolls else deployment_status.counted
    after = judge(deployment, family.new, family.everyone, look.now)
    if deployment_status.written(after) != deployment_status.written(before.status):
        yield status_patch(DEPLOYMENTS, envelope, deployment_status.written(after))


# ---- What asks for a look ----------------------------------------------------------------


def _ended_pods(change: Change, look: Look) -> Iterable[Key]:
    """Whose Pod has ended: a Deployment that replaces all at once waits for that."""
    pod = standing(change)
    controller = owning.controller_of(pod)
    if controller is None or controller.kind != "ReplicaSet":
        return ()
    if change.new is not None and pods.status(change.new).phase not in pods.FINISHED:
        return ()
    set_ = look.of[REPLICA_SETS].get(pod.tenant, namespace_of(pod), controller.name)
    above = None if set_ is None else owning.controller_of(set_)
    if above is None or above.kind != "Deployment":
        return ()
    return [Key(pod.tenant, namespace_of(pod), above.name)]


_claimants = claimant(DEPLOYMENTS, lambda envelope: read_deployment(envelope).selector)
DEPLOYMENT = Controller(
    "deployment-controller",
    (Watch(DEPLOYMENTS, own), Watch(REPLICA_SETS, _claimants), Watch(PODS, _ended_pods)),
    plan,
)
