"""The kind CertificateSigningRequest: validation, approval, status and columns. Pure.

Source: Kubernetes' `pkg/apis/certificates`, `pkg/registry/certificates`.
"""

import base64
import binascii
from collections.abc import Callable
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.kind import Kind, PartialWrite
from vcsync.apimachinery.kinds.common.partial_writes import keep_all_but
from vcsync.apimachinery.patch.resets import Reset, paths
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, indexed, items, one_of, part, text
from vcsync.apimachinery.wire import cells

_DECISIONS = ("Approved", "Denied")
_TERMINAL = ("Approved", "Denied", "Failed")
_LEGACY = "kubernetes.io/legacy-unknown"
_LARGEST = 64 * 1024
_LONGEST_DOMAIN = 253
_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)


def _create(new: Object, context: Context) -> None:
    spec, user = new.setdefault("spec", {}), context.user
    for key in ("username", "uid", "groups", "extra"):
        spec.pop(key, None)
    given = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    spec.update({key: value for key, value in given.items() if value})
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra.items()}


def _update(new: Object, old: Object, _: Context) -> None:
    new["spec"] = old["spec"]


def _request_error(encoded: str) -> str:
    try:
        pem = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return "PEM block type must be CERTIFICATE REQUEST"
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem or len(pem) > _LARGEST:
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        request = x509.load_pem_x509_csr(pem)
        # cryptography parses the subject lazily.
        _ = request.subject
        valid = request.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "asn1: structure error: malformed certificate request"
    return "" if valid else "x509: signature verification failed"


def signer_name(path: str, name: str) -> Findings:
    """Check a signer's name: a domain, a slash and a path."""
    if not name:
        yield errors.required(path)
        return
    domain, slash, rest = name.partition("/")
    if not slash or "/" in rest:
        yield errors.wrong(
            path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        )
        return
    if names.size(domain) > _LONGEST_DOMAIN:
        yield errors.too_long(path, _LONGEST_DOMAIN)
    yield from _labels(path, domain, names.dns_label)
    if "." not in domain:
        yield errors.wrong(path, domain, "should be a domain with at least two segments separated by dots")
    yield from _labels(path, rest, names.dns_subdomain)


def _labels(path: str, name: str, rule: Callable[[str], list[str]]) -> Findings:
    """Check the labels between dots, and stop at the first that is wrong."""
    for label in name.split("."):
        if wrong := rule(label):
            yield from (
                errors.wrong(path, name, f"validating label {errors.value_text(label)}: {each}")
                for each in wrong
            )
            return


def _findings(found: Object) -> Findings:
    spec = part(found, "spec")
    wrong = _request_error(text(spec, "request"))
    if wrong:
        yield errors.wrong("spec.request", spec.get("request"), wrong)
    usages = items(spec, "usages")
    if not usages:
        yield errors.required("spec.usages")
    for index, each in enumerate(usages):
        yield from one_of(f"spec.usages[{index}]", each, _USAGES)
    known: set[str] = set()
    for index, each in enumerate(usages):
        if each in known:
            yield errors.duplicate(f"spec.usages[{index}]", each)
        known.add(each)
    signer = text(spec, "signerName")
    if signer == _LEGACY:
        yield errors.wrong(
            "spec.signerName", signer, "the legacy signerName is not allowed via this API version"
        )
    else:
        yield from signer_name("spec.signerName", signer)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        message = "may not specify a duration less than 600 seconds (10 minutes)"
        yield errors.wrong("spec.expirationSeconds", seconds, message)
    yield from _conditions(found)


def _conditions(found: Object) -> Findings:
    path = "status.conditions"
    seen: set[str] = set()
    for each, here in indexed(part(found, "status"), "conditions", path):
        kind, status = text(each, "type"), text(each, "status")
        if not kind:
            yield errors.required(f"{here}.type")
        allowed = ("True",) if kind in _TERMINAL else ("False", "True", "Unknown")
        if not status:
            yield errors.required(f"{here}.status")
        else:
            yield from one_of(f"{here}.status", status, allowed)
        if kind in _DECISIONS and seen & set(_DECISIONS) - {kind}:
            yield errors.wrong(path, kind, "Approved and Denied conditions are mutually exclusive")
        if kind in seen:
            yield errors.duplicate(f"{here}.type", kind)
        seen.add(kind)


def _of_type(found: Object, kind: str) -> list[Object]:
    return [each for each in items(part(found, "status"), "conditions") if text(each, "type") == kind]


def _changes(new: Object, old: Object, *, deciding: bool, issuing: bool) -> list[FieldError]:
    found, path = list(_conditions(new)), "status.conditions"
    found.extend(
        errors.not_allowed(path, f'updates may not remove a condition of type "{kind}"')
        for kind in _TERMINAL
        if len(_of_type(new, kind)) < len(_of_type(old, kind))
    )
    for kind in () if deciding else _DECISIONS:
        now, was = _of_type(new, kind), _of_type(old, kind)
        if len(now) > len(was):
            found.append(errors.not_allowed(path, f'updates may not add a condition of type "{kind}"'))
        elif len(now) == len(was) and now != was:
            found.append(errors.not_allowed(path, f'updates may not modify a condition of type "{kind}"\n'))
    now_certificate = text(part(new, "status"), "certificate")
    was_certificate = text(part(old, "status"), "certificate")
    if now_certificate != was_certificate:
        if not issuing:
            found.append(errors.not_allowed("status.certificate", "updates may not set certificate content"))
        elif was_certificate:
            message = "updates may not modify existing certificate content"
            found.append(errors.not_allowed("status.certificate", message))
        elif b"-----BEGIN CERTIFICATE-----" not in _bytes(now_certificate):
            message = "must contain at least one CERTIFICATE PEM block"
            found.append(errors.wrong("status.certificate", "<certificate data>", message))
    return found


def _bytes(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _stamp(new: Object, old: Object, context: Context) -> None:
    before = {text(each, "type"): each for each in items(part(old, "status"), "conditions")}
    for each in items(part(new, "status"), "conditions"):
        if not each.get("lastUpdateTime"):
            each["lastUpdateTime"] = context.now
        was = before.get(text(each, "type"))
        if not each.get("lastTransitionTime"):
            same = was is not None and text(was, "status") == text(each, "status")
            kept = was.get("lastTransitionTime") if was is not None and same else None
            each["lastTransitionTime"] = kept or context.now


def _status_prepare(new: Object, old: Object, context: Context) -> None:
    new["spec"] = old["spec"]
    _stamp(new, old, context)


def prepare_approval(new: Object, old: Object, context: Context) -> None:
    """Restore everything but the conditions in a write to `.../approval`."""
    _stamp(new, old, context)
    conditions = items(part(new, "status"), "conditions")
    new["spec"] = old["spec"]
    new["status"] = {**part(old, "status")}
    new["status"].pop("conditions", None)
    if conditions:
        new["status"]["conditions"] = conditions


def validate_approval(new: Object, old: Object) -> list[FieldError]:
    """Return the findings on a write to `.../approval`."""
    return _changes(new, old, deciding=True, issuing=False)


def _any_name(_name: str, _prefix: bool) -> list[str]:
    return []


def request_state(obj: cells.Object, _: datetime) -> str:
    """Return the state of a request, from its conditions."""
    found = {each.get("type") for each in cells.look(obj, "status.conditions", ())}
    state = next((each for each in ("Denied", "Approved") if each in found), "Pending")
    failed = ",Failed" if "Failed" in found else ""
    return state + failed + (",Issued" if cells.look(obj, "status.certificate") else "")


def requested_duration(obj: cells.Object, _: datetime) -> str:
    """Return the requested duration of the certificate."""
    seconds = cells.look(obj, "spec.expirationSeconds")
    return cells.NONE if seconds is None else cells.lasting(timedelta(seconds=seconds))


def _write_approval(new: Object, old: Object, context: Context) -> None:
    prepare_approval(new, old, context)
    keep_all_but(new, old, "status")


KIND = Kind(
    group="certificates.k8s.io",
    kind="CertificateSigningRequest",
    plural="certificatesigningrequests",
    status=True,
    prepare_create=_create,
    prepare_update=_update,
    validate=lambda found: list(_findings(found)),
    validate_update=lambda new, old: _changes(new, old, deciding=False, issuing=False),
    status_prepare=_status_prepare,
    status_validate=lambda new, old: _changes(new, old, deciding=False, issuing=True),
    fields=lambda found: {"spec.signerName": text(part(found, "spec"), "signerName")},
    validate_name=_any_name,
    columns={
        "Name": cells.name,
        "Age": cells.age,
        "SignerName": cells.filled("spec.signerName", cells.NONE),
        "Requestor": cells.field("spec.username"),
        "RequestedDuration": requested_duration,
        "Condition": request_state,
    },
    resets={
        "": Reset(paths("spec", "status")),
        "status": Reset(paths("spec", "status.conditions")),
        "approval": Reset(paths("spec", "status.certificate")),
    },
    partial_writes={"approval": PartialWrite(_write_approval, validate_approval)},
)
