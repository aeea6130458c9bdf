"""What the pod scheduler keeps of a Pod: identity, ours labels, and a compact record of what it needs. Pure."""

from typing import Any

import msgspec
from msgspec import Struct

from vcsync.api.names import SUPER_CLUSTER
from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.quantity import InvalidQuantity
from vcsync.scheduling.pods import PodNeeds, pod_needs, super_of_node

Key = tuple[str, str]
"""(namespace, name)."""

FINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of the Pods that use anything."""

_NO_LABELS: dict[str, str] = {}
_shared: dict[str, dict[str, str]] = {}
_MOST_SHARED = 1024  # a tenant may write any value
_encode = msgspec.json.Encoder().encode
_decode_record = msgspec.json.Decoder(tuple[PodNeeds, str]).decode


class Pod(Struct):
    """One Pod. `label` and `annotation`: the super cluster they name, empty if none.

    `told`: what its PodScheduled condition says of why it waits. `seen_at`: by the process's clock, in
    seconds.
    """

    namespace: str
    name: str
    uid: str
    version: str
    needs: PodNeeds
    label: str
    annotation: str
    deleting: bool
    told: str
    seen_at: float = 0.0

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return self.namespace, self.name

    @property
    def bound_to(self) -> str:
        """Id of the super cluster whose virtual node it is bound to; empty if it is not."""
        return super_of_node(self.needs.node)


class _Condition(Struct, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(Struct, gc=False):
    conditions: tuple[_Condition, ...] | None = None


def slim(pod: Envelope) -> Envelope:
    """A Pod's envelope for the cache: our label and annotation, and in place of `spec` what `read` needs."""
    try:
        needs = pod_needs(pod.spec)
    except (
        msgspec.ValidationError,
        InvalidQuantity,
    ):  # no API server lets that pass; bound it can only be left alone
        needs = PodNeeds(gated=True)
    told = "" if needs.node else _unschedulable(pod.status)
    return Envelope(
        pod.name,
        pod.namespace,
        pod.uid,
        pod.resource_version,
        labels=_only_ours(pod.labels),
        annotations=_only_ours(pod.annotations),
        deletion_timestamp=pod.deletion_timestamp,
        spec=_encode((needs, told)),
    )


def read(slimmed: Envelope, seen_at: float) -> Pod:
    """The Pod of an envelope made by `slim`."""
    needs, told = _decode_record(slimmed.spec)
    return Pod(
        slimmed.namespace,
        slimmed.name,
        slimmed.uid,
        slimmed.resource_version,
        needs,
        slimmed.labels.get(SUPER_CLUSTER, ""),
        slimmed.annotations.get(SUPER_CLUSTER, ""),
        slimmed.deleting,
        told,
        seen_at,
    )


def assignment(pod: Pod, super_id: str | None) -> dict[str, Any]:
    """The merge patch that gives a Pod to a super cluster, or to none; refused if it is another Pod or has changed."""
    return {
        "metadata": {
            "uid": pod.uid,
            "resourceVersion": pod.version,
            "labels": {SUPER_CLUSTER: super_id},
            "annotations": {SUPER_CLUSTER: super_id},
        }
    }


def unschedulable(pod: Pod, message: str, now: str) -> dict[str, Any]:
    """The strategic merge patch of a Pod's status that says why it waits, as the Kubernetes scheduler would."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": now,
    }
    return {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}


def _unschedulable(status: bytes) -> str:
    for condition in decode(status, _Status).conditions or () if b'"PodScheduled"' in status else ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return ""


def _only_ours(values: dict[str, str]) -> dict[str, str]:
    """Our key alone, in a dict that all Pods of one super cluster share."""
    value = values.get(SUPER_CLUSTER)
    if value is None:
        return _NO_LABELS
    found = _shared.get(value)
    if found is None:
        found = {SUPER_CLUSTER: value}
        if len(_shared) < _MOST_SHARED:
            _shared[value] = found
    return found
