"""The Pod scheduler's record of a Pod: identity, vcsync's label and annotation, and its needs. Pure."""

from collections.abc import Container, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from vcsync.api.names import COPY_FINALIZER, SUPER_CLUSTER, SUPER_CLUSTER_LOST
from vcsync.api.refusals import NOTHING, REFUSED, RETURNED, WITHDRAWN, Said, refusal_annotation, said_by_all
from vcsync.objects.conditions import Condition
from vcsync.objects.envelope import Envelope, OwnerReference, decode
from vcsync.objects.generated_names import is_generated
from vcsync.objects.quantity import InvalidQuantity
from vcsync.scheduling.pods import PodNeeds, pod_needs, super_of_node

Key = tuple[str, str]
"""(namespace, name)."""

FINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of the Pods that use resources."""

_NO_LABELS: dict[str, str] = {}
_NOT_SAID: dict[str, Said] = {}
_MOST_SHARED = 1024
_LONGEST_SHARED = 512  # characters; what is longer counts as the tenant's alone, and goes with its Pods
_encode = msgspec.json.Encoder().encode
_PRIORITY = b'"priority":'
_LOST = SUPER_CLUSTER_LOST.encode()
_KEEPS_NAME = (COPY_FINALIZER,)


class Pod(Struct):
    """One Pod.

    Attributes:
        namespace: its namespace.
        name: its name.
        uid: its UID.
        version: its resourceVersion.
        needs: its requests and constraints.
        label: the super cluster that its label names; empty if none.
        annotation: the super cluster that its annotation names; empty if none.
        deleting: whether it is being deleted.
        waiting_message: the message of its PodScheduled condition while it waits; empty otherwise.
        marked_lost: whether its condition Ready says that its super cluster is lost.
        seen_at: monotonic seconds at which this process first saw it.
        services: names of the Services that select it and keep their Pods together.
        generated: whether its name is generated, so that a Pod which replaces it has another name.
        said: what super clusters that refused it say, by their id.
        priority: its priority in its namespace.
        finalizers: its finalizers, if they matter: it has no node, or keeps its name.
    """

    namespace: str
    name: str
    uid: str
    version: str
    needs: PodNeeds
    label: str
    annotation: str
    deleting: bool
    waiting_message: str
    marked_lost: bool = False
    seen_at: float = 0.0
    services: tuple[str, ...] = ()
    generated: bool = False
    said: Mapping[str, Said] = _NOT_SAID
    priority: int = 0
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return self.namespace, self.name

    @property
    def bound_to(self) -> str:
        """Id of the super cluster whose virtual node it is bound to; empty if it is not."""
        return super_of_node(self.needs.node)

    @property
    def refused(self) -> bool:
        """Whether the super cluster that its label names refuses it."""
        return self._state == REFUSED

    @property
    def leaving(self) -> bool:
        """Whether its decision was taken back, and the super cluster that its label names may have a copy."""
        return self._state == WITHDRAWN

    @property
    def returned(self) -> bool:
        """Whether the super cluster that its label names has given it back."""
        return self._state == RETURNED

    @property
    def keeps_name(self) -> bool:
        """Whether its API server keeps it when it is deleted, since its super cluster may have a copy."""
        return COPY_FINALIZER in self.finalizers

    def is_evicted_from(self, super_id: str) -> bool:
        """Return whether it is to be evicted if it has to leave a lost super cluster.

        A Pod without a node ends at once then, and may run on. One of a fixed name waits instead, since another Pod would get
        its name and run elsewhere.
        """
        if self.needs.node or not self.generated:
            return self.bound_to == super_id
        return self.label == super_id and not self.returned

    @property
    def _state(self) -> str:
        if not (self.said and self.label) or self.needs.node:
            return ""
        return self.said.get(self.label, NOTHING).state


class _Record(Struct, frozen=True, gc=False, array_like=True):
    needs: PodNeeds
    message: str
    services: tuple[str, ...]
    marked_lost: int
    said: dict[str, Said] = _NOT_SAID
    priority: int = 0
    """Both are left out if they are empty, as for most Pods."""


class _PriorityOnly(Struct, gc=False):
    priority: int | None = None


_decode_priority = msgspec.json.Decoder(_PriorityOnly).decode
_decode_record = msgspec.json.Decoder(_Record).decode


class _Status(Struct, gc=False):
    conditions: tuple[Condition, ...] | None = None


def slim(pod: Envelope, services: tuple[str, ...] = (), known: Container[str] | None = None) -> Envelope:
    """Return a Pod's envelope for the cache.

    It has only vcsync's label and annotation, the UIDs of its owners, the prefix of a generated name, the finalizers of a Pod
    that has no node or keeps its name, and the record of `read` as `spec`.

    Args:
        pod: the Pod.
        services: names of the Services that select it and keep their Pods together.
        known: ids of the super clusters of the pool; None for any. A tenant can write any number of others.
    """
    try:
        needs = pod_needs(pod.spec, pod.name, pod.status)
    except (msgspec.ValidationError, InvalidQuantity):
        # API servers do not accept such Pods. It is treated like a Pod with scheduling gates, so nothing is done with it.
        needs = PodNeeds(gated=True)
    message = "" if needs.node else _unschedulable_message(pod.status)
    record, said = (
        (needs, message, services, int(_says_lost(pod.status))),
        said_by_all(pod.annotations, known),
    )
    priority = _priority(pod.spec)
    return Envelope(
        pod.name,
        pod.namespace,
        pod.uid,
        pod.resource_version,
        labels=_only_ours(pod.labels, known),
        annotations=_only_ours(pod.annotations, known),
        owners=_owners(tuple(owner.uid for owner in pod.owners)),
        generate_name=_prefix(pod.generate_name),
        finalizers=_finalizers(pod.finalizers, needs.node),
        deletion_timestamp=pod.deletion_timestamp,
        spec=_encode((*record, said, priority) if said or priority else record),
    )


def read(slimmed: Envelope, seen_at: float) -> Pod:
    """Return the Pod of an envelope made by `slim`."""
    record = _decode_record(slimmed.spec)
    return Pod(
        slimmed.namespace,
        slimmed.name,
        slimmed.uid,
        slimmed.resource_version,
        record.needs,
        slimmed.labels.get(SUPER_CLUSTER, ""),
        slimmed.annotations.get(SUPER_CLUSTER, ""),
        slimmed.deleting,
        record.message,
        bool(record.marked_lost),
        seen_at,
        record.services,
        is_generated(slimmed.name, slimmed.generate_name),
        record.said,
        record.priority,
        slimmed.finalizers,
    )


def assignment(pod: Pod, super_id: str | None) -> dict[str, Any]:
    """Return the merge patch that assigns a Pod to a super cluster, or to none. It fails if the Pod has changed.

    A super cluster that has given the Pod back may make a copy again. That one which the Pod leaves has said all there is to
    say, unless it has refused the Pod, which is remembered.

    A Pod of a fixed name keeps its name from now on, since there may be a copy; one without super cluster does not.
    """
    cleared: dict[str, Any] = {}
    left, again = pod.said.get(pod.label, NOTHING), pod.said.get(super_id or "", NOTHING)
    if left.state and not left.refuses:
        cleared |= refusal_annotation(pod.label, _forgotten(left))
    if super_id and again.state:
        cleared |= refusal_annotation(super_id, _forgotten(again))
    keeps = bool(super_id) and not (pod.generated or pod.needs.node)
    return {
        "metadata": {
            "uid": pod.uid,
            "resourceVersion": pod.version,
            "labels": {SUPER_CLUSTER: super_id},
            "annotations": {SUPER_CLUSTER: super_id, **cleared},
            **({} if keeps == pod.keeps_name else _keep_name(pod, keeps=keeps)),
        }
    }


def _keep_name(pod: Pod, *, keeps: bool) -> dict[str, Any]:
    """Return the part of a merge patch of `metadata` by which a Pod keeps its name, or does not any more."""
    others = [each for each in pod.finalizers if each != COPY_FINALIZER]
    return {"finalizers": [*others, COPY_FINALIZER] if keeps else others}


def name_release(pod: Pod) -> dict[str, Any]:
    """Return the merge patch that frees the name of a Pod of which there is no copy. It fails if the Pod has changed."""
    return {"metadata": {"uid": pod.uid, "resourceVersion": pod.version, **_keep_name(pod, keeps=False)}}


def _forgotten(said: Said) -> Said:
    """Return what is left of a statement once the Pod is assigned again: how often and why it was refused."""
    return replace(said, state="", reason=said.reason if said.refuses else "")


def withdrawal(pod: Pod, reason: str) -> dict[str, Any]:
    """Return the merge patch that takes the decision on a Pod back. It fails if the Pod has changed.

    Args:
        pod: the Pod.
        reason: why, as `Said.reason`.
    """
    said = replace(pod.said.get(pod.label, NOTHING), state=WITHDRAWN, reason=reason)
    annotations = refusal_annotation(pod.label, said)
    return {"metadata": {"uid": pod.uid, "resourceVersion": pod.version, "annotations": annotations}}


def unschedulable(pod: Pod, message: str, now: str) -> dict[str, Any]:
    """Return the strategic merge patch of the status of a waiting Pod, as kube-scheduler writes it."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": now,
    }
    return {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}


def lost(pod: Pod, out_of_touch: str, now: str) -> dict[str, Any]:
    """Return the strategic merge patch of the status of a Pod whose super cluster is lost.

    Whether it is ready is not known. Like the node controller of Kubernetes, it changes the condition Ready alone.

    Args:
        pod: the Pod.
        out_of_touch: since when nobody knows what happens there, in words.
        now: the time of the change, RFC 3339.
    """
    condition = {
        "type": "Ready",
        "status": "Unknown",
        "reason": SUPER_CLUSTER_LOST,
        "message": f"whether the Pod runs is not known, because super cluster {pod.bound_to} is lost: {out_of_touch}",
        "lastTransitionTime": now,
    }
    return {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}


def _priority(spec: bytes) -> int:
    """Return the priority that the control plane has found for a Pod by its PriorityClass."""
    at = spec.find(_PRIORITY)
    if at < 0 or spec[at + len(_PRIORITY) : at + len(_PRIORITY) + 2] in (b"0,", b"0}"):
        return 0  # as for most Pods, so that the spec is not decoded again
    try:
        return _decode_priority(spec).priority or 0
    except msgspec.ValidationError:  # API servers do not accept such Pods
        return 0


def _says_lost(status: bytes) -> bool:
    """Return whether the condition Ready says that the super cluster is lost."""
    if _LOST not in status:
        return False
    conditions = decode(status, _Status).conditions or ()
    return any(each.type == "Ready" and each.reason == SUPER_CLUSTER_LOST for each in conditions)


def _unschedulable_message(status: bytes) -> str:
    for condition in decode(status, _Status).conditions or () if b'"PodScheduled"' in status else ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return ""


def _finalizers(found: tuple[str, ...], node: str) -> tuple[str, ...]:
    """Return the finalizers of a Pod that a patch may have to repeat, as one object for most Pods."""
    if found == _KEEPS_NAME:
        return _KEEPS_NAME
    return () if node and COPY_FINALIZER not in found else found


def _owners(uids: tuple[str, ...]) -> tuple[OwnerReference, ...]:
    """Return owners by their UIDs, as one object for all Pods of a workload."""
    short = sum(map(len, uids)) <= _LONGEST_SHARED
    return _shared_owners(uids) if short else _shared_owners.__wrapped__(uids)


@lru_cache(_MOST_SHARED)
def _shared_owners(uids: tuple[str, ...]) -> tuple[OwnerReference, ...]:
    return tuple(OwnerReference(uid=uid) for uid in uids)


def _prefix(generate_name: str) -> str:
    """Return the prefix of generated names, as one object for all Pods of a workload."""
    return _shared_prefix(generate_name) if len(generate_name) <= _LONGEST_SHARED else generate_name


@lru_cache(_MOST_SHARED)
def _shared_prefix(generate_name: str) -> str:
    return generate_name


def _only_ours(values: dict[str, str], known: Container[str] | None) -> dict[str, str]:
    """Return vcsync's key alone, in a dict that all Pods of one super cluster share to save memory.

    A value that names no super cluster is not shared: a tenant may write any, and would fill the table for all.
    """
    value = values.get(SUPER_CLUSTER)
    if value is None:
        return _NO_LABELS
    shared = len(value) <= _LONGEST_SHARED and (known is None or value in known)
    return _labels(value) if shared else _labels.__wrapped__(value)


@lru_cache(_MOST_SHARED)
def _labels(super_id: str) -> dict[str, str]:
    return {SUPER_CLUSTER: super_id}
