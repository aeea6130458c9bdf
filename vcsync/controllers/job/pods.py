"""The Pods that a Job creates and deletes. Pure.

Behaviour: `manageJob` and `indexed_job_utils.go` of Kubernetes' `pkg/controller/job`.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from msgspec import Struct

from vcsync.controllers.framework import ownership, pods
from vcsync.controllers.framework.mirror import namespace_of
from vcsync.controllers.framework.plan import Create, View
from vcsync.controllers.job import indexes as job_indexes
from vcsync.controllers.job import policies as job_policies
from vcsync.controllers.job.objects import (
    FAILURE_COUNT,
    FINALIZER,
    IGNORED_FAILURE_COUNT,
    INDEX,
    NO_INDEX,
    Job,
    JobPod,
)
from vcsync.controllers.job.status import Tally
from vcsync.kube.resources import JOBS, PODS

BURST = 500
"""Maximum number of Pods created or deleted for one Job in one reconcile."""
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX = 58


class Change(Struct, frozen=True):
    """The next changes of a Job's Pods: either deletions or creations. `again`: seconds until more may be created."""

    surplus: Sequence[JobPod] = ()
    creations: Sequence[Create] = ()
    again: float | None = None


def change(job: Job, found: Tally, view: View) -> Change:
    """Return the changes that lead to the number of Pods that should run."""
    active = found.active
    if job.spec.suspend:
        return Change(surplus=active[:BURST])
    wanted = _wanted(job, found)
    surplus = _surplus(job, active, max(0, len(active) - wanted))
    if surplus:
        return Change(surplus=surplus[:BURST])
    going = sum(each.terminating for each in found.pods) if job.replaces_failed_only else 0
    count = min(wanted - going - len(active), BURST)
    if count <= 0:
        return Change()
    if not job.per_index:
        wait = job_policies.wait(found.pods, view.now)
        if wait > 0:
            return Change(again=wait)
    if not job.indexed:
        return Change(creations=[_creation(job, NO_INDEX, None, view) for _ in range(count)])
    indexes = list(islice(job_indexes.missing(_taken(job, found), job.completions), count))
    waits = {each: _index_wait(job, found, each, view.now) for each in indexes}
    return Change(
        creations=[
            _creation(job, each, found.kept.get(each), view) for each, wait in waits.items() if wait <= 0
        ],
        again=min((wait for wait in waits.values() if wait > 0), default=None),
    )


def _wanted(job: Job, found: Tally) -> int:
    if job.spec.completions is None:
        return len(found.active) if found.succeeded else job.spec.parallelism
    return max(0, min(job.spec.completions - found.succeeded, job.spec.parallelism))


def _surplus(job: Job, active: Sequence[JobPod], count: int) -> list[JobPod]:
    """Return Pods to delete: Pods that cannot count, Pods without a free index, duplicates, then any surplus."""
    ranked = sorted(active, key=lambda each: pods.deletion_rank(each.envelope, 0))
    given_up = [each for each in ranked if not each.tracked]
    left = [each for each in ranked if each.tracked]
    if job.indexed:
        # The last Pod of an index ranks highest and stays.
        stays = {each.index: each.uid for each in left}
        given_up += [each for each in left if each.index == NO_INDEX or stays[each.index] != each.uid]
        left = [each for each in left if each.index != NO_INDEX and stays[each.index] == each.uid]
    return given_up + left[: max(0, count - len(given_up))]


def _taken(job: Job, found: Tally) -> job_indexes.Intervals:
    """Return the indexes that need no Pod now."""
    busy = [
        each.index
        for each in found.pods
        if each.index != NO_INDEX and (each.active or (job.replaces_failed_only and each.terminating))
    ]
    settled = job_indexes.merged((*found.succeeded_indexes, *found.failed_indexes))
    return job_indexes.with_indexes(settled, busy)


def _index_wait(job: Job, found: Tally, index: int, now: datetime) -> float:
    return job_policies.index_wait(found.kept.get(index), now) if job.per_index else 0.0


def _creation(job: Job, index: int, replaced: JobPod | None, view: View) -> Create:
    metadata, spec = job.template.get("metadata") or {}, job.template.get("spec") or {}
    labels, annotations = dict(metadata.get("labels") or {}), dict(metadata.get("annotations") or {})
    prefix = f"{job.envelope.name}-"
    if index != NO_INDEX:
        labels[INDEX] = annotations[INDEX] = str(index)
        if job.per_index:
            annotations |= _failures(job, replaced)
        spec = _indexed(spec, job.envelope.name, index)
        ending = f"-{index}-"
        prefix = f"{job.envelope.name[: _LONGEST_PREFIX - len(ending)]}{ending}"
    finalizers = [each for each in metadata.get("finalizers") or () if each != FINALIZER]
    body: dict[str, Any] = {
        "metadata": {
            "labels": labels,
            **({"annotations": annotations} if annotations else {}),
            "finalizers": [*finalizers, FINALIZER],
            "generateName": prefix,
            "name": f"{prefix[:_LONGEST_PREFIX]}{view.suffix()}",
            "ownerReferences": [ownership.reference(JOBS, job.envelope)],
        },
        "spec": spec,
    }
    return Create(PODS, namespace_of(job.envelope), body)


def _failures(job: Job, replaced: JobPod | None) -> dict[str, str]:
    """Return the annotations with the number of earlier failures of an index."""
    counted, ignored = 0, 0
    if replaced is not None:
        counted, ignored = replaced.failures, replaced.ignored_failures
        if job_policies.counts(job, replaced):
            counted += 1
        else:
            ignored += 1
    annotations = {FAILURE_COUNT: str(counted)}
    return annotations | ({IGNORED_FAILURE_COUNT: str(ignored)} if ignored else {})


def _indexed(spec: dict[str, Any], job: str, index: int) -> dict[str, Any]:
    """Return a Pod's spec with its index."""
    changed = {**spec, "hostname": f"{job}-{index}"}
    for part in ("initContainers", "containers"):
        if spec.get(part):
            changed[part] = [_with_index(each) for each in spec[part]]
    return changed


def _with_index(container: dict[str, Any]) -> dict[str, Any]:
    known = container.get("env") or []
    if any(each.get("name") == INDEX_VARIABLE for each in known):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*known, {"name": INDEX_VARIABLE, "valueFrom": source}]}
