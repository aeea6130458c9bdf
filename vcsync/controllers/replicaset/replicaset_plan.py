"""ReplicaSets and ReplicationControllers: a requested number of Pods. Pure.

Behaviour: Kubernetes' `pkg/controller/replicaset`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from vcsync.controllers.framework import ownership, pods
from vcsync.controllers.framework.event_handlers import claimant, gathering, own
from vcsync.controllers.framework.mirror import Key, namespace_of
from vcsync.controllers.framework.plan import (
    NOTHING,
    Action,
    Controller,
    Create,
    Delete,
    Outcome,
    Plan,
    View,
    Watch,
    status_patch,
)
from vcsync.controllers.framework.pod_events import pod_events
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, Resource
from vcsync.objects.conditions import Condition, find_condition
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.objects.selectors import LabelSelector, Selector, compile_selector
from vcsync.objects.times import time_text

BURST = 500
"""Maximum number of Pods created or deleted for one object in one reconcile."""


class ReplicasStatus(Struct, rename="camel", omit_defaults=True):
    """The status of both kinds."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] | None = None


class ReplicaSetSpec(Struct, rename="camel"):
    """The parts of a ReplicaSet's spec."""

    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    min_ready_seconds: int = 0


class ReplicationControllerSpec(Struct, rename="camel"):
    """The parts of a ReplicationController's spec."""

    replicas: int = 1
    selector: dict[str, str] | None = None
    min_ready_seconds: int = 0


class Replicas(Struct, frozen=True):
    """The requested number of Pods, and their selector and template."""

    count: int
    selector: Selector
    min_ready_seconds: int
    template: dict[str, Any]


def of_replica_set(envelope: Envelope) -> Replicas:
    """Read a ReplicaSet."""
    spec = decode(envelope.spec, ReplicaSetSpec)
    template = untyped(envelope.spec).get("template") or {}
    return Replicas(spec.replicas, compile_selector(spec.selector), spec.min_ready_seconds, template)


def of_replication_controller(envelope: Envelope) -> Replicas:
    """Decode a ReplicationController; its API server sets a missing selector."""
    spec = decode(envelope.spec, ReplicationControllerSpec)
    template = untyped(envelope.spec).get("template") or {}
    selector = compile_selector(LabelSelector(spec.selector or {}))
    return Replicas(spec.replicas, selector, spec.min_ready_seconds, template)


def plan(resource: Resource, read: Callable[[Envelope], Replicas], view: View, key: Key) -> Plan:
    """Return the actions that lead to the requested number of Pods."""
    set_ = view.of[resource].get(*key)
    if set_ is None:
        return NOTHING
    asked = read(set_)
    everyone = [
        pod
        for pod in view.of[PODS].within(key.tenant, key.namespace)
        if pods.is_active(pod) or _going(pod, set_.uid)
    ]
    mine, claims = ownership.claim(resource, set_, asked.selector, PODS, everyone)
    active = [pod for pod in mine if not pod.deleting]
    steps: list[Sequence[Action]] = [claims]
    missing = asked.count - len(active)
    if not set_.deleting and missing > 0:
        creations = [_creation(resource, set_, asked.template, view) for _ in range(min(missing, BURST))]
        steps.append(creations)
    elif not set_.deleting and missing < 0:
        steps.append(_deletions(active, -missing))
    ripe = pods.ripe_in(active, asked.min_ready_seconds, view.now)
    return Plan(steps, partial(_finish, resource, read, key), ripe)


def _going(pod: Envelope, uid: str) -> bool:
    controller = ownership.controller_of(pod)
    phase = pods.status(pod).phase
    return pod.deleting and phase not in pods.FINISHED and controller is not None and controller.uid == uid


def _creation(resource: Resource, set_: Envelope, template: dict[str, Any], view: View) -> Create:
    metadata = template.get("metadata") or {}
    prefix = f"{set_.name}-"
    body = {
        "metadata": {
            **{
                name: metadata[name] for name in ("labels", "annotations", "finalizers") if metadata.get(name)
            },
            "generateName": prefix,
            "name": f"{prefix[:58]}{view.suffix()}",
            "ownerReferences": [ownership.reference(resource, set_)],
        },
        "spec": template.get("spec") or {},
    }
    return Create(PODS, namespace_of(set_), body)


def _deletions(active: Sequence[Envelope], count: int) -> list[Action]:
    crowds = Counter(pods.spec(pod).node_name for pod in active)
    ranked = sorted(active, key=lambda pod: pods.deletion_rank(pod, crowds[pods.spec(pod).node_name]))
    return [Delete(PODS, namespace_of(pod), pod.name, pod.uid) for pod in ranked[: min(count, BURST)]]


def _finish(
    resource: Resource, read: Callable[[Envelope], Replicas], key: Key, view: View, outcome: Outcome
) -> Iterable[Action]:
    set_ = view.of[resource].get(*key)
    if set_ is None:
        return
    about = ObjectRef(resource.api_version, resource.kind, set_.name, namespace_of(set_), set_.uid)
    yield from pod_events(about, outcome)
    asked, before = read(set_), decode(set_.status, ReplicasStatus)
    mine = [pod for pod in ownership.controlled(view.of[PODS], set_) if asked.selector.matches(pod.labels)]
    active = [pod for pod in mine if pods.is_active(pod)]
    labels = (asked.template.get("metadata") or {}).get("labels") or {}
    after = ReplicasStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(labels.items() <= pod.labels.items() for pod in active),
        ready_replicas=sum(pods.ready_since(pod) is not None for pod in active),
        available_replicas=sum(pods.is_available(pod, asked.min_ready_seconds, view.now) for pod in active),
        terminating_replicas=sum(_going(pod, set_.uid) for pod in mine) if resource is REPLICA_SETS else None,
        observed_generation=set_.generation,
        conditions=_conditions(before.conditions or (), outcome, view),
    )
    if after != before:
        yield status_patch(resource, set_, _written(after))


def _written(status: ReplicasStatus) -> dict[str, Any]:
    conditions = [
        {
            "type": each.type,
            "status": each.status,
            "reason": each.reason,
            "message": each.message,
            "lastTransitionTime": each.last_transition_time,
        }
        for each in status.conditions or ()
    ]
    return {
        "replicas": status.replicas,
        "fullyLabeledReplicas": status.fully_labeled_replicas or None,
        "readyReplicas": status.ready_replicas or None,
        "availableReplicas": status.available_replicas or None,
        "terminatingReplicas": status.terminating_replicas,
        "observedGeneration": status.observed_generation or None,
        "conditions": conditions or None,
    }


def _conditions(before: tuple[Condition, ...], outcome: Outcome, view: View) -> tuple[Condition, ...] | None:
    others = tuple(each for each in before if each.type != "ReplicaFailure")
    failure = next((each for each in outcome.failures if isinstance(each.action, Create | Delete)), None)
    if failure is None:
        return others or None
    reason = "FailedCreate" if isinstance(failure.action, Create) else "FailedDelete"
    known = find_condition(before, "ReplicaFailure")
    if known is not None and (known.reason, known.status) == (reason, "True"):
        return before
    condition = Condition("ReplicaFailure", "True", reason, failure.said, time_text(view.now))
    return (*others, condition)


def _controller(name: str, resource: Resource, read: Callable[[Envelope], Replicas]) -> Controller:
    claimants = claimant(resource)
    return Controller(
        name,
        (Watch(resource, own), Watch(PODS, claimants, gathering(pace=4000.0, most=1.0))),
        partial(plan, resource, read),
    )


REPLICA_SET = _controller("replicaset-controller", REPLICA_SETS, of_replica_set)
REPLICATION_CONTROLLER = _controller(
    "replication-controller", REPLICATION_CONTROLLERS, of_replication_controller
)
