"""Deployments: rollouts from one ReplicaSet to the next. Pure.

Behaviour: Kubernetes' `pkg/controller/deployment`. Each reconcile takes one step; changes of the ReplicaSets trigger the
next one.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vcsync.controllers.deployment import rollout
from vcsync.controllers.deployment import status as deployment_status
from vcsync.controllers.deployment.objects import (
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
from vcsync.controllers.framework import ownership, pods
from vcsync.controllers.framework.event_handlers import claimant, own, standing
from vcsync.controllers.framework.mirror import Key, namespace_of
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
from vcsync.kube.cache import Change
from vcsync.kube.errors import AlreadyExists
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from vcsync.objects.conditions import find_condition
from vcsync.objects.envelope import untyped

LONGEST_HISTORY = 2000
"""Maximum length of the annotation that lists a ReplicaSet's earlier revisions."""

Steps = list[Sequence[Action]]


class Family(Struct, frozen=True):
    """A Deployment and its ReplicaSets. `new`: the one of the current template."""

    deployment: Deployment
    new: ReplicaSet | None
    old: list[ReplicaSet]

    @property
    def everyone(self) -> list[ReplicaSet]:
        """Return all of its ReplicaSets."""
        return [*self.old, *([self.new] if self.new else [])]


def plan(view: View, key: Key) -> Plan:
    """Decide on the next step of a Deployment."""
    envelope = view.of[DEPLOYMENTS].get(*key)
    if envelope is None:
        return NOTHING
    deployment = read_deployment(envelope)
    mine, claims = ownership.claim(
        DEPLOYMENTS,
        envelope,
        deployment.selector,
        REPLICA_SETS,
        view.of[REPLICA_SETS].within(key.tenant, key.namespace),
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
        steps += _roll(family, view)
    else:
        steps += _recreate(family, view)
    status = deployment_status.rolled(deployment, family.new, family.everyone, view.now)
    if rolls and deployment_status.complete(deployment, status):
        steps += _cleared(family)
    return Plan(
        steps,
        partial(_finish, key, rolls),
        deployment_status.overdue_in(deployment, status, view.now) if rolls else None,
    )


def _family(deployment: Deployment, sets: Sequence[ReplicaSet]) -> Family:
    ordered = sorted(sets, key=lambda each: each.age)
    new = next((each for each in ordered if same_template(each.template, deployment.template)), None)
    return Family(deployment, new, [each for each in ordered if each is not new])


def _was_scaled(family: Family) -> bool:
    """Return whether an active ReplicaSet was sized for a number of replicas other than the current one."""
    desired = [number(each.envelope, DESIRED_REPLICAS) for each in family.everyone if each.replicas > 0]
    return any(each is not None and each != family.deployment.spec.replicas for each in desired)


# ---- The steps of a rollout --------------------------------------------------------------


def _roll(family: Family, view: View) -> Steps:
    deployment, new = family.deployment, family.new
    if new is None:
        return _made(family, view)
    sizes = rollout.grown(deployment, new, family.everyone)
    return _resized(family, sizes or rollout.shrunk(deployment, new, family.old))


def _recreate(family: Family, view: View) -> Steps:
    active = [each for each in family.old if each.replicas > 0]
    if active:
        return _resized(family, [(each, 0) for each in active])
    left = [pod for each in family.old for pod in ownership.controlled(view.of[PODS], each.envelope)]
    if any(pods.status(pod).phase not in pods.FINISHED for pod in left):
        return []
    if family.new is None:
        return _made(family, view)
    wanted = family.deployment.spec.replicas
    return _resized(family, [(family.new, wanted)] if family.new.replicas != wanted else [])


def _made(family: Family, view: View) -> Steps:
    """Create the ReplicaSet of the current template, unless another object has its name."""
    deployment = family.deployment
    envelope, template = deployment.envelope, deployment.template
    hash_ = template_hash(template, deployment.status.collision_count)
    name, namespace = set_name(envelope.name, hash_), namespace_of(envelope)
    if view.of[REPLICA_SETS].get(envelope.tenant, namespace, name) is not None:
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
            "ownerReferences": [ownership.reference(DEPLOYMENTS, envelope)],
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
    """Record in active ReplicaSets the number of replicas that they are sized for; otherwise they would count as scaled forever.

    A change of only the surge is recorded when they are next sized, as in Kubernetes.
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
    """Delete the oldest ReplicaSets beyond the history limit."""
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
    """Copy annotations from the Deployment to its new ReplicaSet, and the revision to both."""
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
        steps.append([_revision_patch(deployment, revision)])
    return steps


def _revision_patch(deployment: Deployment, revision: str) -> Patch:
    """Return the patch that notes a Deployment's revision. As part of the status it does not raise the generation."""
    envelope = deployment.envelope
    patch = {"metadata": {"uid": envelope.uid, "annotations": {REVISION: revision}}}
    return Patch(DEPLOYMENTS, namespace_of(envelope), envelope.name, patch, subresource="status")


def _history(history: str, revision: str) -> str:
    """Add a revision to a list of revisions, without as many of the oldest as make it too long."""
    kept, room = [revision], LONGEST_HISTORY - len(revision)
    for each in reversed([each for each in history.split(",") if each]):
        room -= len(each) + 1
        if room < 0:
            break
        kept.append(each)
    return ",".join(reversed(kept))


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


def _finish(key: Key, rolls: bool, view: View, outcome: Outcome) -> Iterable[Action]:
    envelope = view.of[DEPLOYMENTS].get(*key)
    if envelope is None:
        return
    before = read_deployment(envelope)
    failed = next((each for each in outcome.failures if isinstance(each.action, Create)), None)
    if failed is not None and isinstance(failed.error, AlreadyExists):
        yield _collided(before)
        return
    family = _family(
        before, [read_set(each) for each in ownership.controlled(view.of[REPLICA_SETS], envelope)]
    )
    conditions = before.status.conditions if envelope.deleting else deployment_status.paused(before, view.now)
    made = any(isinstance(each, Create) for each in outcome.done)
    news: tuple[str, str, str] | None = None
    if failed is not None and isinstance(failed.action, Create):
        name = failed.action.body["metadata"]["name"]
        message = f'Failed to create new replica set "{name}": {failed.said}'
        news = ("False", deployment_status.NOT_CREATED, message)
        yield Emit(_about(before), "Warning", deployment_status.NOT_CREATED, message)
    elif made and family.new:
        news = ("True", deployment_status.CREATED, f'Created new replica set "{family.new.name}"')
    elif family.new and find_condition(conditions, deployment_status.PROGRESSING) is None:
        news = ("True", deployment_status.FOUND, f'Found new replica set "{family.new.name}"')
    if news and before.has_deadline and not envelope.deleting:
        new = deployment_status.condition(deployment_status.PROGRESSING, *news, view.now)
        conditions = deployment_status.with_condition(conditions, new)
    deployment = replace(before, status=replace(before.status, conditions=conditions))
    judge = deployment_status.rolled if rolls else deployment_status.counted
    after = judge(deployment, family.new, family.everyone, view.now)
    if deployment_status.written(after) != deployment_status.written(before.status):
        yield status_patch(DEPLOYMENTS, envelope, deployment_status.written(after))


# ---- Triggers ----------------------------------------------------------------------------


def _ended_pods(change: Change, view: View) -> Iterable[Key]:
    """Return the Deployment of a Pod that has ended, if its strategy is Recreate: it waits for old Pods to end."""
    pod = standing(change)
    controller = ownership.controller_of(pod)
    if controller is None or controller.kind != "ReplicaSet":
        return ()
    if change.new is not None and pods.status(change.new).phase not in pods.FINISHED:
        return ()
    set_ = view.of[REPLICA_SETS].get(pod.tenant, namespace_of(pod), controller.name)
    above = None if set_ is None else ownership.controller_of(set_)
    if above is None or above.kind != "Deployment":
        return ()
    return [Key(pod.tenant, namespace_of(pod), above.name)]


_claimants = claimant(DEPLOYMENTS)
DEPLOYMENT = Controller(
    "deployment-controller",
    (Watch(DEPLOYMENTS, own), Watch(REPLICA_SETS, _claimants), Watch(PODS, _ended_pods)),
    plan,
)
