"""The status of a Deployment and its rollout. Pure.

Behaviour: Kubernetes' `pkg/controller/deployment/progress.go` and `sync.go`.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from vcsync.controllers.deployment.objects import (
    Deployment,
    DeploymentCondition,
    DeploymentStatus,
    ReplicaSet,
)
from vcsync.controllers.framework import pods
from vcsync.objects.conditions import find_condition
from vcsync.objects.times import time_text

Conditions = tuple[DeploymentCondition, ...]

AVAILABLE, PROGRESSING, REPLICA_FAILURE = "Available", "Progressing", "ReplicaFailure"
COMPLETE, TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"
FOUND, CREATED, NOT_CREATED = "FoundNewReplicaSet", "NewReplicaSetCreated", "ReplicaSetCreateError"


def with_condition(conditions: Conditions | None, new: DeploymentCondition) -> Conditions:
    """Return the conditions with a new one added; a condition with the same status and reason stays unchanged."""
    before = find_condition(conditions, new.type)
    if before is not None and (before.status, before.reason) == (new.status, new.reason):
        return conditions or ()
    if before is not None and before.status == new.status:
        new = replace(new, last_transition_time=before.last_transition_time)
    return (*without(conditions, new.type), new)


def without(conditions: Conditions | None, type_: str) -> Conditions:
    """Return the conditions of all other types."""
    return tuple(each for each in conditions or () if each.type != type_)


def condition(type_: str, status: str, reason: str, message: str, now: datetime) -> DeploymentCondition:
    """Return a condition that starts now."""
    time = time_text(now)
    return DeploymentCondition(type_, status, reason, message, time, last_update_time=time)


def paused(deployment: Deployment, now: datetime) -> Conditions | None:
    """Return the conditions after a pause or its end is recorded; a missed deadline stays."""
    conditions = deployment.status.conditions
    if not deployment.has_deadline:
        return conditions
    present = find_condition(conditions, PROGRESSING)
    if present is not None and present.reason == TIMED_OUT:
        return conditions
    recorded = present is not None and present.reason == PAUSED
    if deployment.spec.paused and not recorded:
        new = condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now)
    elif recorded and not deployment.spec.paused:
        new = condition(PROGRESSING, "Unknown", RESUMED, "Deployment is resumed", now)
    else:
        return conditions
    return with_condition(conditions, new)


def counted(
    deployment: Deployment, new: ReplicaSet | None, sets: Sequence[ReplicaSet], now: datetime
) -> DeploymentStatus:
    """Return the status that follows from the ReplicaSets, and whether enough Pods are available.

    Args:
        deployment: with the conditions to keep.
        new: the ReplicaSet of its template.
        sets: all of its ReplicaSets.
        now: the time.
    """
    available = sum(each.status.available_replicas for each in sets)
    terminating = [each.status.terminating_replicas for each in sets]
    if available >= deployment.spec.replicas - deployment.unavailable:
        enough = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        enough = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    return DeploymentStatus(
        observed_generation=deployment.envelope.generation,
        replicas=sum(each.status.replicas for each in sets),
        updated_replicas=new.status.replicas if new else 0,
        ready_replicas=sum(each.status.ready_replicas for each in sets),
        available_replicas=available,
        unavailable_replicas=max(sum(each.replicas for each in sets) - available, 0),
        terminating_replicas=None if None in terminating else sum(each or 0 for each in terminating),
        collision_count=deployment.status.collision_count,
        conditions=with_condition(deployment.status.conditions, condition(AVAILABLE, *enough, now)),
    )


def rolled(
    deployment: Deployment, new: ReplicaSet | None, sets: Sequence[ReplicaSet], now: datetime
) -> DeploymentStatus:
    """Return the status during a rollout: the result of `counted` with the progress of the rollout."""
    status = counted(deployment, new, sets, now)
    status.conditions = _with_progress(deployment, status, new, now)
    failure = _failure(new, sets)
    if failure is None:
        status.conditions = without(status.conditions, REPLICA_FAILURE)
    else:
        status.conditions = with_condition(status.conditions, failure)
    return status


def complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Return whether all Pods have the new template and are available."""
    wanted = deployment.spec.replicas
    counts = {status.updated_replicas, status.replicas, status.available_replicas}
    return counts == {wanted} and status.observed_generation >= deployment.envelope.generation


def overdue_in(deployment: Deployment, status: DeploymentStatus, now: datetime) -> float | None:
    """Return the seconds until the rollout misses its deadline; None: it cannot."""
    progress = find_condition(status.conditions, PROGRESSING)
    if not deployment.has_deadline or progress is None or complete(deployment, status):
        return None
    if progress.reason in (TIMED_OUT, COMPLETE):
        return None
    since = (now - pods.moment(progress.last_update_time)).total_seconds()
    return max(deployment.spec.progress_deadline_seconds - since, 0.0) + 1.0


def _with_progress(
    deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None, now: datetime
) -> Conditions:
    conditions = status.conditions or ()
    if not deployment.has_deadline:
        return without(conditions, PROGRESSING)
    present = find_condition(deployment.status.conditions, PROGRESSING)
    finished = present is not None and present.reason == COMPLETE
    if finished and status.replicas == status.updated_replicas:
        return conditions
    who = f'ReplicaSet "{new.name}"' if new else f'Deployment "{deployment.envelope.name}"'
    if complete(deployment, status):
        message = f"{who} has successfully progressed."
        return with_condition(conditions, condition(PROGRESSING, "True", COMPLETE, message, now))
    if _moves(deployment.status, status):
        moving = condition(PROGRESSING, "True", "ReplicaSetUpdated", f"{who} is progressing.", now)
        if present is not None and present.status == "True":
            moving = replace(moving, last_transition_time=present.last_transition_time)
        return (*without(conditions, PROGRESSING), moving)
    if _timed_out(deployment, conditions, now):
        message = f"{who} has timed out progressing."
        return with_condition(conditions, condition(PROGRESSING, "False", TIMED_OUT, message, now))
    return conditions


def _moves(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    return (
        after.updated_replicas > before.updated_replicas
        or after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
    )


def _timed_out(deployment: Deployment, conditions: Conditions, now: datetime) -> bool:
    progress = find_condition(conditions, PROGRESSING)
    if progress is None or progress.reason == COMPLETE:
        return False
    if progress.reason == TIMED_OUT:
        return True
    since = (now - pods.moment(progress.last_update_time)).total_seconds()
    return since > deployment.spec.progress_deadline_seconds


def _failure(new: ReplicaSet | None, sets: Iterable[ReplicaSet]) -> DeploymentCondition | None:
    for each in [*([new] if new else []), *sets]:
        found = find_condition(each.status.conditions, REPLICA_FAILURE)
        if found is not None:
            time = found.last_transition_time
            return DeploymentCondition(
                found.type, found.status, found.reason, found.message, time, last_update_time=time
            )
    return None


def written(status: DeploymentStatus) -> dict[str, Any]:
    """Return a status as a merge patch: zero values are left out, as servers do."""
    conditions = [
        {
            "type": each.type,
            "status": each.status,
            "reason": each.reason,
            "message": each.message,
            "lastUpdateTime": each.last_update_time,
            "lastTransitionTime": each.last_transition_time,
        }
        for each in status.conditions or ()
    ]
    return {
        "observedGeneration": status.observed_generation or None,
        "replicas": status.replicas or None,
        "updatedReplicas": status.updated_replicas or None,
        "readyReplicas": status.ready_replicas or None,
        "availableReplicas": status.available_replicas or None,
        "unavailableReplicas": status.unavailable_replicas or None,
        "terminatingReplicas": status.terminating_replicas,
        "collisionCount": status.collision_count,
        "conditions": conditions or None,
    }
