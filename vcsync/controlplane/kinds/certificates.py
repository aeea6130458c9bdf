"""CertificateSigningRequests. Pure.

Source: Kubernetes' `pkg/apis/certificates`, `pkg/registry/certificates`.
"""

import base64
import binascii

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Context
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.rules import Findings, Object, indexed, items, one_of, part, text

_GROUP = "certificates.k8s.io"
_DECISIONS = ("Approved", "Denied")
_TERMINAL = ("Approved", "Denied", "Failed")
_LEGACY = "kubernetes.io/legacy-unknown"
_LARGEST = 64 * 1024
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
        _ = request.subject  # it is read when it is asked for only
        valid = request.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "asn1: structure error: malformed certificate request"
    return "" if valid else "x509: signature verification failed"


def signer_name(path: str, name: str) -> Findings:
    """A signer's name: a domain and a path."""
    if not name:
        yield errors.required(path)
        return
    domain, slash, rest = name.partition("/")
    if not slash or "/" in rest:
        yield errors.wrong(
            path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        )
        return
    wrong = names.dns_subdomain(domain)
    yield from (errors.wrong(path, domain, f"validating domain: {each}") for each in wrong)
    if domain and "." not in domain:
        yield errors.wrong(path, domain, "should be a domain with at least two segments separated by dots")
    for each in names.dns_subdomain(rest):
        yield errors.wrong(path, rest, f"validating label {errors.shown(rest)}: {each}")


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
        told = "may not specify a duration less than 600 seconds (10 minutes)"
        yield errors.wrong("spec.expirationSeconds", seconds, told)
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
            told = "updates may not modify existing certificate content"
            found.append(errors.not_allowed("status.certificate", told))
        elif b"-----BEGIN CERTIFICATE-----" not in _bytes(now_certificate):
            told = "must contain at least one CERTIFICATE PEM block"
            found.append(errors.wrong("status.certificate", "<certificate data>", told))
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
    """Take nothing but conditions from a write to `.../approval`."""
    _stamp(new, old, context)
    conditions = items(part(new, "status"), "conditions")
    new["spec"] = old["spec"]
    new["status"] = {**part(old, "status")}
    new["status"].pop("conditions", None)
    if conditions:
        new["status"]["conditions"] = conditions


def validate_approval(new: Object, old: Object) -> list[FieldError]:
    """Findings on a write to `.../approval`."""
    return _changes(new, old, deciding=True, issuing=False)


def _any_name(_name: str, _prefix: bool) -> list[str]:
    return []


CERTIFICATES = {
    (_GROUP, "CertificateSigningRequest"): Part(
        prepare_create=_create,
        prepare_update=_update,
        validate=lambda found: list(_findings(found)),
        validate_update=lambda new, old: _changes(new, old, deciding=False, issuing=False),
        status_prepare=_status_prepare,
        status_validate=lambda new, old: _changes(new, old, deciding=False, issuing=True),
        fields=lambda found: {"spec.signerName": text(part(found, "spec"), "signerName")},
        name=_any_name,
    ),
    (_GROUP, "ClusterTrustBundle"): Part(
        fields=lambda found: {"spec.signerName": text(part(found, "spec"), "signerName")}
    ),
    (_GROUP, "PodCertificateRequest"): Part(
        fields=lambda found: {
            "spec.signerName": text(part(found, "spec"), "signerName"),
            "spec.podName": text(part(found, "spec"), "podName"),
            "spec.nodeName": text(part(found, "spec"), "nodeName"),
        },
        validate=lambda found: list(signer_name("spec.signerName", text(part(found, "spec"), "signerName"))),
    ),
}
