"""CertificateSigningRequests: approves those of kubelets, requests signatures for approved ones, and deletes old ones.

Behaviour: Kubernetes' `pkg/controller/certificates/{approver,signer,cleaner}`. The CA's key is not available here: the
control plane signs only requests that are approved in its own store.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec
from cryptography import x509
from msgspec import Struct

from vcsync.controllers.certificates.issuing import Issuing
from vcsync.controllers.framework import pods
from vcsync.controllers.framework.event_handlers import own
from vcsync.controllers.framework.mirror import Key
from vcsync.controllers.framework.plan import NOTHING, Controller, Delete, Plan, View, Watch
from vcsync.controllers.framework.worker import ReconcileContext, Worker
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, NotFound
from vcsync.kube.resources import CERTIFICATE_SIGNING_REQUESTS, SUBJECT_ACCESS_REVIEWS
from vcsync.objects.conditions import Condition, find_condition
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.objects.signing_requests import SIGNERS, RequestError, common_name, is_kubelet_client, parse

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
SETTLED_KEPT = timedelta(hours=1)
"""Retention time of requests after their certificate was issued, or they were denied or failed."""
WAITING_KEPT = timedelta(hours=24)
"""Retention time of requests that wait for approval or for their certificate."""
LONGEST_WAIT = 1000.0
_ITSELF = "Auto approving self kubelet client certificate after SubjectAccessReview."
_ANOTHER = "Auto approving kubelet client certificate after SubjectAccessReview."


class _Spec(Struct, rename="camel"):
    request: str = ""
    signer_name: str = ""
    usages: tuple[str, ...] | None = None
    username: str = ""


class _RequestCondition(Condition, rename="camel"):
    last_update_time: str | None = None


class _Status(Struct):
    certificate: str | None = None
    conditions: tuple[_RequestCondition, ...] | None = None


# ---- Approving -----------------------------------------------------------------------------


async def approve(context: ReconcileContext, key: Key) -> float | None:
    """Approve a kubelet's request if the requester has the permission.

    Returns:
        seconds until the permission is checked again: soon while the request is young.

    Raises:
        KubeError: the permission could not be checked, or the approval not written.
    """
    request = context.view.of[CERTIFICATE_SIGNING_REQUESTS].get(*key)
    if request is None:
        return None
    spec, status = decode(request.spec, _Spec), decode(request.status, _Status)
    decided = {each.type for each in status.conditions or ()}
    if status.certificate or not decided.isdisjoint((APPROVED, DENIED)):
        return None
    ways = _ways(spec)
    for subresource, message in ways:
        if await _may(context.client, request, subresource):
            condition = {"type": APPROVED, "status": "True", "reason": "AutoApproved", "message": message}
            await _add(context.client, request, condition, "approval")
            return None
    if not ways:
        return None
    age = (context.view.now - pods.moment(request.creation_timestamp)).total_seconds()
    return min(max(age, 1.0), LONGEST_WAIT)


def _ways(spec: _Spec) -> list[tuple[str, str]]:
    """Return the permission that a requester needs for approval, and the message of the approval."""
    try:
        request = parse(spec.request)
        itself = common_name(request) == spec.username
    except RequestError:
        return []
    if not is_kubelet_client(spec.signer_name, request, spec.usages or ()):
        return []
    return [*([("selfnodeclient", _ITSELF)] if itself else ()), ("nodeclient", _ANOTHER)]


async def _may(client: Client, request: Envelope, subresource: str) -> bool:
    asked = untyped(request.spec)
    who = {"user": "username", "uid": "uid", "groups": "groups", "extra": "extra"}
    attributes = {
        "group": CERTIFICATE_SIGNING_REQUESTS.group,
        "resource": CERTIFICATE_SIGNING_REQUESTS.plural,
        "subresource": subresource,
        "verb": "create",
        "version": "*",
    }
    spec = {to: asked[name] for to, name in who.items() if asked.get(name)}
    answer = await client.create_raw(
        SUBJECT_ACCESS_REVIEWS, {"spec": {**spec, "resourceAttributes": attributes}}
    )
    found: Mapping[str, Any] = msgspec.json.decode(answer)
    return bool((found.get("status") or {}).get("allowed"))


async def _add(client: Client, request: Envelope, condition: Mapping[str, str], subresource: str) -> None:
    """Add a condition to exactly this version of a request; a changed request is processed again anyway."""
    conditions = [*(untyped(request.status).get("conditions") or ()), condition]
    metadata = {"uid": request.uid, "resourceVersion": request.resource_version}
    patch = {"metadata": metadata, "status": {"conditions": conditions}}
    try:
        await client.patch(CERTIFICATE_SIGNING_REQUESTS, request.name, patch, subresource=subresource)
    except (Conflict, NotFound):
        return


# ---- Signing -------------------------------------------------------------------------------


async def sign(issuing: Issuing, context: ReconcileContext, key: Key) -> float | None:
    """Request the signature of an approved request, or record why it is refused.

    Raises:
        KubeError: the request could not be signed or written.
    """
    request = context.view.of[CERTIFICATE_SIGNING_REQUESTS].get(*key)
    if request is None or decode(request.spec, _Spec).signer_name not in SIGNERS:
        return None
    status = decode(request.status, _Status)
    said = {each.type for each in status.conditions or () if each.status in ("", "True")}
    if status.certificate or APPROVED not in said or not said.isdisjoint((DENIED, FAILED)):
        return None
    try:
        issued = await issuing.certificate(key.tenant, request.name, request.uid)
    except (Conflict, NotFound):
        # The request has changed, and its change queues it again.
        return None
    if issued.failure:
        failed = {
            "type": FAILED,
            "status": "True",
            "reason": "SignerValidationFailure",
            "message": issued.failure,
        }
        await _add(context.client, request, failed, "status")
        return None
    certificate = base64.b64encode(issued.certificate.encode()).decode()
    metadata = {"uid": request.uid, "resourceVersion": request.resource_version}
    patch = {"metadata": metadata, "status": {"certificate": certificate}}
    try:
        await context.client.patch(CERTIFICATE_SIGNING_REQUESTS, request.name, patch, subresource="status")
    except (Conflict, NotFound):
        return None
    return None


# ---- Cleaning ------------------------------------------------------------------------------


def plan_cleaning(view: View, key: Key) -> Plan:
    """Delete a request whose retention time is over."""
    request = view.of[CERTIFICATE_SIGNING_REQUESTS].get(*key)
    ends = None if request is None or request.deleting else _ends(request)
    if request is None or ends is None:
        return NOTHING
    if view.now <= ends:
        return Plan(again=(ends - view.now).total_seconds() + 1.0)
    return Plan([[Delete(CERTIFICATE_SIGNING_REQUESTS, "", request.name, request.uid)]])


def _ends(request: Envelope) -> datetime | None:
    """Return the time until which a request is kept; None: forever."""
    status = decode(request.status, _Status)
    conditions, issued = status.conditions or (), bool(status.certificate)
    kept = {
        APPROVED: SETTLED_KEPT if issued else WAITING_KEPT,
        DENIED: SETTLED_KEPT,
        FAILED: SETTLED_KEPT,
    }
    found = [
        pods.moment(each.last_update_time) + kept[each.type]
        for each in conditions
        if each.type in kept and each.last_update_time
    ]
    if not conditions:
        found.append(pods.moment(request.creation_timestamp) + WAITING_KEPT)
    if issued and find_condition(conditions, APPROVED) is not None:
        found += _expiry(status.certificate or "")
    return min(found, default=None)


def _expiry(certificate: str) -> Iterable[datetime]:
    """Return when a certificate expires, if the status contains one."""
    try:
        found = x509.load_pem_x509_certificate(base64.b64decode(certificate, validate=True))
    except (binascii.Error, ValueError):
        return ()
    return (found.not_valid_after_utc.astimezone(UTC),)


def signing(server: Client) -> Worker:
    """Return the signing controller; `server`: client of the control plane's root, as a system caller."""
    return Worker("certificatesigningrequest-signing-controller", _WATCHES, partial(sign, Issuing(server)))


_WATCHES = (Watch(CERTIFICATE_SIGNING_REQUESTS, own),)

APPROVING = Worker("certificatesigningrequest-approving-controller", _WATCHES, approve)
CLEANING = Controller("certificatesigningrequest-cleaner-controller", _WATCHES, plan_cleaning)
