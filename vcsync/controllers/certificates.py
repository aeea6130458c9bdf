"""CertificateSigningRequests: kubelets' own are approved, approved ones are signed, old ones cleaned up.

Behaviour: Kubernetes' `pkg/controller/certificates/{approver,signer,cleaner}`. The authority's key is not here: the control
plane signs what it finds approved in its own store.
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

from vcsync.controllers import pods
from vcsync.controllers.issuing import Issuing
from vcsync.controllers.mirror import Key
from vcsync.controllers.plan import NOTHING, Controller, Delete, Look, Plan, Watch
from vcsync.controllers.waking import own
from vcsync.controllers.working import Desk, Worker
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope, decode, untyped
from vcsync.kube.errors import Conflict, NotFound
from vcsync.kube.resources import CERTIFICATE_SIGNING_REQUESTS, Resource
from vcsync.kube.signing_requests import SIGNERS, RequestError, common_name, is_kubelet_client, parse

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
SETTLED_KEPT = timedelta(hours=1)
"""How long requests are kept that have been answered: issued, denied or failed."""
WAITING_KEPT = timedelta(hours=24)
"""How long those are kept that wait to be approved, or to be signed."""
LONGEST_WAIT = 1000.0
REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
_ITSELF = "Auto approving self kubelet client certificate after SubjectAccessReview."
_ANOTHER = "Auto approving kubelet client certificate after SubjectAccessReview."


class _Spec(Struct, rename="camel"):
    request: str = ""
    signer_name: str = ""
    usages: tuple[str, ...] | None = None
    username: str = ""


class _Condition(Struct, rename="camel"):
    type: str = ""
    status: str = ""
    last_update_time: str | None = None


class _Status(Struct):
    certificate: str | None = None
    conditions: tuple[_Condition, ...] | None = None


# ---- Approving -----------------------------------------------------------------------------


async def approve(desk: Desk, key: Key) -> float | None:
    """Approve what a kubelet asks for, if whoever asked may have that.

    Returns:
        seconds after which to ask again whether it may: soon while the request is young.

    Raises:
        KubeError: it could not be asked or written.
    """
    request = desk.look.of[CERTIFICATE_SIGNING_REQUESTS].get(*key)
    if request is None:
        return None
    spec, status = decode(request.spec, _Spec), decode(request.status, _Status)
    decided = {each.type for each in status.conditions or ()}
    if status.certificate or not decided.isdisjoint((APPROVED, DENIED)):
        return None
    ways = _ways(spec)
    for subresource, message in ways:
        if await _may(desk.client, request, subresource):
            condition = {"type": APPROVED, "status": "True", "reason": "AutoApproved", "message": message}
            await _add(desk.client, request, condition, "approval")
            return None
    if not ways:
        return None
    age = (desk.look.now - pods.moment(request.creation_timestamp)).total_seconds()
    return min(max(age, 1.0), LONGEST_WAIT)


def _ways(spec: _Spec) -> list[tuple[str, str]]:
    """Return what whoever asked may be allowed to have approved, and what is told of it then."""
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
    answer = await client.create_raw(REVIEWS, {"spec": {**spec, "resourceAttributes": attributes}})
    found: Mapping[str, Any] = msgspec.json.decode(answer)
    return bool((found.get("status") or {}).get("allowed"))


async def _add(client: Client, request: Envelope, condition: Mapping[str, str], subresource: str) -> None:
    """Add a condition to the very request that was looked at; if it has changed, it is looked at again anyway."""
    conditions = [*(untyped(request.status).get("conditions") or ()), condition]
    metadata = {"uid": request.uid, "resourceVersion": request.resource_version}
    patch = {"metadata": metadata, "status": {"conditions": conditions}}
    try:
        await client.patch(CERTIFICATE_SIGNING_REQUESTS, request.name, patch, subresource=subresource)
    except (Conflict, NotFound):
        return


# ---- Signing -------------------------------------------------------------------------------


async def sign(issuing: Issuing, desk: Desk, key: Key) -> float | None:
    """Have an approved request signed, or say why it is not.

    Raises:
        KubeError: it could not be signed or written.
    """
    request = desk.look.of[CERTIFICATE_SIGNING_REQUESTS].get(*key)
    if request is None or decode(request.spec, _Spec).signer_name not in SIGNERS:
        return None
    status = decode(request.status, _Status)
    said = {each.type for each in status.conditions or () if each.status in ("", "True")}
    if status.certificate or APPROVED not in said or not said.isdisjoint((DENIED, FAILED)):
        return None
    try:
        issued = await issuing.certificate(key.tenant, request.name, request.uid)
    except (Conflict, NotFound):  # it has changed: that is news of its own
        return None
    if issued.failure:
        failed = {
            "type": FAILED,
            "status": "True",
            "reason": "SignerValidationFailure",
            "message": issued.failure,
        }
        await _add(desk.client, request, failed, "status")
        return None
    certificate = base64.b64encode(issued.certificate.encode()).decode()
    metadata = {"uid": request.uid, "resourceVersion": request.resource_version}
    patch = {"metadata": metadata, "status": {"certificate": certificate}}
    try:
        await desk.client.patch(CERTIFICATE_SIGNING_REQUESTS, request.name, patch, subresource="status")
    except (Conflict, NotFound):
        return None
    return None


# ---- Cleaning ------------------------------------------------------------------------------


def plan_cleaning(look: Look, key: Key) -> Plan:
    """Delete a request that has been kept for long enough."""
    request = look.of[CERTIFICATE_SIGNING_REQUESTS].get(*key)
    ends = None if request is None or request.deleting else _ends(request)
    if request is None or ends is None:
        return NOTHING
    if look.now <= ends:
        return Plan(again=(ends - look.now).total_seconds() + 1.0)
    return Plan([[Delete(CERTIFICATE_SIGNING_REQUESTS, "", request.name, request.uid)]])


def _ends(request: Envelope) -> datetime | None:
    """Return until when a request is kept; None: for ever."""
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
    if issued and any(each.type == APPROVED for each in conditions):
        found += _expiry(status.certificate or "")
    return min(found, default=None)


def _expiry(certificate: str) -> Iterable[datetime]:
    """When a certificate ends, if what stands there is one."""
    try:
        found = x509.load_pem_x509_certificate(base64.b64decode(certificate, validate=True))
    except (binascii.Error, ValueError):
        return ()
    return (found.not_valid_after_utc.astimezone(UTC),)


def signing(server: Client) -> Worker:
    """Return the controller that has requests signed; `server`: the control plane's root, as a system caller."""
    return Worker("certificatesigningrequest-signing-controller", _WATCHES, partial(sign, Issuing(server)))


_WATCHES = (Watch(CERTIFICATE_SIGNING_REQUESTS, own),)

APPROVING = Worker("certificatesigningrequest-approving-controller", _WATCHES, approve)
CLEANING = Controller("certificatesigningrequest-cleaner-controller", _WATCHES, plan_cleaning)
