"""AdmissionReviews of Pods that an external control plane is about to create: what is asked, and the answer. Pure.

Form: Kubernetes' `admission.k8s.io/v1` (`staging/src/k8s.io/api/admission/v1/types.go`).
"""

import base64
from collections.abc import Container, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.api.names import COPY_FINALIZER, SUPER_CLUSTER
from vcsync.objects.generated_names import is_generated
from vcsync.objects.quantity import InvalidQuantity
from vcsync.podscheduler.promises import Birth, birth_of
from vcsync.scheduling.pods import MARKED, PodNeeds, is_plain, pod_needs

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
MAX_UID = 128
"""Longest UID of a review. Those of API servers have 36 characters."""


class BadReview(ValueError):
    """A body is not an AdmissionReview that can be answered. The text says why."""


class _Owner(Struct, gc=False):
    uid: str = ""


class _Metadata(Struct, gc=False, rename="camel"):
    name: str = ""
    generate_name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[_Owner, ...] | None = None


class _Pod(Struct, gc=False):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))


class _Resource(Struct, gc=False):
    group: str = ""
    version: str = ""
    resource: str = ""


class _Request(Struct, gc=False, rename="camel"):
    uid: str
    resource: _Resource = msgspec.field(default_factory=_Resource)
    sub_resource: str = ""
    namespace: str = ""
    operation: str = ""
    dry_run: bool = False
    object: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))


class _Review(Struct, gc=False, rename="camel"):
    api_version: str
    kind: str
    request: _Request


class NewPod(Struct, frozen=True):
    """A Pod for which room may be promised.

    Attributes:
        birth: what identifies it.
        needs: its needs.
        labels: its labels, by which Services select it.
        marked: the parts of its metadata that exist, among those that name a super cluster, and `finalizers`.
        keeps_name: whether it is to keep its name when it has a super cluster.
    """

    birth: Birth
    needs: PodNeeds
    labels: Mapping[str, str]
    marked: tuple[str, ...]
    keeps_name: bool = False


class Asked(Struct, frozen=True):
    """A question.

    Attributes:
        uid: UID of the review, which its answer has, too.
        pod: the new Pod; None if nothing is to be promised to it.
    """

    uid: str
    pod: NewPod | None = None


_decode = msgspec.json.Decoder(_Review).decode
_decode_pod = msgspec.json.Decoder(_Pod).decode
_decode_spec = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


def read_review(body: bytes) -> Asked:
    """Return what a review asks.

    Nothing is promised to a dry run, to other objects than new Pods, and to Pods that the scheduler judges when it sees
    them; see `is_plain`.

    Raises:
        BadReview: it is not an AdmissionReview, or its Pod is malformed.
    """
    try:
        review = _decode(body)
        asked = review.request
        if (review.api_version, review.kind) != (API_VERSION, KIND):
            raise BadReview(f"apiVersion and kind: send {API_VERSION}, {KIND}")
        if not 0 < len(asked.uid) <= MAX_UID:
            raise BadReview(f"request.uid: it must have 1 to {MAX_UID} characters")
        return Asked(asked.uid, None if _is_of_no_pod(asked) else _new_pod(asked.namespace, asked.object))
    except (msgspec.MsgspecError, InvalidQuantity, UnicodeDecodeError, RecursionError) as error:
        raise BadReview(str(error)) from error


def _is_of_no_pod(asked: _Request) -> bool:
    """Return whether a request is not about a Pod that is to be stored."""
    what = asked.resource.group, asked.resource.resource, asked.sub_resource, asked.operation
    return what != ("", "pods", "", "CREATE") or asked.dry_run or not asked.namespace


def _new_pod(namespace: str, raw: msgspec.Raw) -> NewPod | None:
    pod = _decode_pod(raw)
    metadata, spec = pod.metadata, bytes(pod.spec)
    marks = {part: getattr(metadata, part) for part in MARKED}
    if not is_plain({"metadata": marks, "spec": _decode_spec(spec)}):
        return None
    if not (metadata.name or metadata.generate_name):
        return None
    needs = pod_needs(spec, metadata.name)
    owners = [owner.uid for owner in metadata.owner_references or ()]
    birth = birth_of(namespace, metadata.name, metadata.generate_name, owners, needs.requests)
    finalizers = metadata.finalizers
    there = [part for part in MARKED if marks[part] is not None] + ["finalizers"] * (finalizers is not None)
    keeps_name = not is_generated(metadata.name, metadata.generate_name) and (
        COPY_FINALIZER not in (finalizers or ())
    )
    return NewPod(birth, needs, metadata.labels or {}, tuple(there), keeps_name)


def answer(uid: str, super_id: str = "", marked: Iterable[str] = (), *, keeps_name: bool = False) -> bytes:
    """Return the answer to a review. It always allows the Pod.

    Args:
        uid: UID of the review.
        super_id: the super cluster that the Pod is to name; empty if it is to name none.
        marked: the parts of its metadata that exist; see `NewPod`.
        keeps_name: whether it is to keep its name.
    """
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if super_id:
        patch = _patch(super_id, frozenset(marked), keeps_name=keeps_name)
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
    return _encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _patch(super_id: str, there: Container[str], *, keeps_name: bool) -> bytes:
    """Return the JSON patch by which a Pod names a super cluster, and keeps its name, as by the scheduler's own patch."""
    key = SUPER_CLUSTER.replace("~", "~0").replace("/", "~1")
    added: list[tuple[str, Any]] = [
        (f"/metadata/{part}/{key}", super_id)
        if part in there
        else (f"/metadata/{part}", {SUPER_CLUSTER: super_id})
        for part in MARKED
    ]
    if keeps_name and "finalizers" in there:
        added.append(("/metadata/finalizers/-", COPY_FINALIZER))
    elif keeps_name:
        added.append(("/metadata/finalizers", [COPY_FINALIZER]))
    return _encode([{"op": "add", "path": path, "value": value} for path, value in added])
