"""The kind APIService, which says what serves a group and version: validation, status and columns. Pure.

Source: kube-aggregator's `pkg/apis/apiregistration/validation`, `pkg/apis/apiregistration/v1/defaults.go`,
`pkg/registry/apiservice/strategy.go`.
"""

from datetime import datetime

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.patch.resets import SPEC_AND_METADATA, STATUS
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, indexed, number, one_of, part, say, text
from vcsync.apimachinery.wire import cells

_HTTPS = 443
NOT_FORWARDED = "this control plane does not forward requests to Services: its operator allows none"
"""Reason why an APIService that names a Service is not available, unless the operator allows networks for Services."""
NOT_FORWARDED_REASON = "NotForwarded"
AVAILABLE = "Available"
_LOCAL = ("True", "Local", "Local APIServices are always available")
_NOT_FORWARDED = ("False", NOT_FORWARDED_REASON, NOT_FORWARDED)
"""Status, reason and message of the condition Available."""
_STATUSES = ("True", "False", "Unknown")
_HIGHEST_GROUP = 20000
_HIGHEST_VERSION = 1000
_HIGHEST_PORT = 65535


def _default(found: Object) -> None:
    service = part(found, "spec").get("service")
    if service is not None:
        fill(service, {"port": _HTTPS})


def _validate(found: Object) -> list[FieldError]:
    spec = part(found, "spec")
    return [*_name(found, spec), *_version(spec), *_target(spec)]


def _name(found: Object, spec: Object) -> Findings:
    wanted = f"{text(spec, 'version')}.{text(spec, 'group')}"
    for key in ("generateName", "name"):
        name = text(part(found, "metadata"), key)
        if name and not names.path_segment(name) and name != wanted:
            yield errors.wrong(f"metadata.{key}", name, f'must be `spec.version+"."+spec.group`: "{wanted}"')


def _version(spec: Object) -> Findings:
    group, version = text(spec, "group"), text(spec, "version")
    if group:
        yield from say("spec.group", group, names.dns_subdomain(group))
    elif version != "v1":
        yield errors.required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    yield from say("spec.version", version, names.dns_label_1035(version))
    for key, highest in (("groupPriorityMinimum", _HIGHEST_GROUP), ("versionPriority", _HIGHEST_VERSION)):
        given = number(spec, key)
        if not 0 < given <= highest:
            yield errors.wrong(f"spec.{key}", given, f"must be positive and less than {highest}")


def _target(spec: Object) -> Findings:
    service, insecure = spec.get("service"), spec.get("insecureSkipTLSVerify")
    authority = text(spec, "caBundle")
    if service is None:
        if authority:
            size = len(authority) * 3 // 4 - authority.count("=")
            yield errors.wrong("spec.caBundle", f"{size} bytes", "local APIServices may not have a caBundle")
        if insecure:
            message = "local APIServices may not have insecureSkipTLSVerify"
            yield errors.wrong("spec.insecureSkipTLSVerify", True, message)
        return
    for key in ("namespace", "name"):
        if not text(service, key):
            yield errors.required(f"spec.service.{key}")
    port = number(service, "port")
    if not 0 < port <= _HIGHEST_PORT:
        message = "port is not valid: must be between 1 and 65535, inclusive"
        yield errors.wrong("spec.service.port", port, message)
    if insecure and authority:
        yield errors.wrong("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


def _status(new: Object, _: Object) -> list[FieldError]:
    found: list[FieldError] = []
    for each, here in indexed(part(new, "status"), "conditions", "status.conditions"):
        found.extend(one_of(f"{here}.status", text(each, "status"), _STATUSES))
    return found


def _create(found: Object, context: Context) -> None:
    """Set the condition Available if it is known at once, as kube-aggregator does for what the server itself serves.

    Whether a Service that may be called is available, a controller finds out.
    """
    service = part(found, "spec").get("service")
    known = service is None or not context.forwards
    found["status"] = {"conditions": [availability(service, context.now)]} if known else {}


def availability(service: Object | None, now: str) -> Object:
    """Return the condition Available of an APIService that is local or that nothing is forwarded to.

    Args:
        service: The Service that it names, or None.
        now: The time, in RFC 3339.
    """
    status, reason, message = _LOCAL if service is None else _NOT_FORWARDED
    return {
        "type": AVAILABLE,
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def _update(new: Object, old: Object, context: Context) -> None:
    if is_local(new) != is_local(old):
        _create(new, context)


def _warnings(new: Object, old: Object | None) -> list[str]:
    if is_local(new) or (old is not None and not is_local(old)):
        return []
    found = cells.condition(new, AVAILABLE) or {}
    if found.get("reason") != NOT_FORWARDED_REASON:
        return []
    return [f"{part(new, 'metadata').get('name', '')} is not available: {NOT_FORWARDED}"]


def is_local(found: Object) -> bool:
    """Return whether the server itself serves the group and version of an APIService."""
    return part(found, "spec").get("service") is None


def served_by(obj: cells.Object, _: datetime) -> str:
    """Return the name of the Service behind an APIService."""
    found = cells.look(obj, "spec.service")
    return "Local" if found is None else f"{found.get('namespace', '')}/{found.get('name', '')}"


def available(obj: cells.Object, _: datetime) -> str:
    """Return whether an APIService is available, with the reason if it is not."""
    found = cells.condition(obj, AVAILABLE)
    if found is None:
        return "Unknown"
    status = found.get("status", "")
    return str(status) if status == "True" else f"{status} ({found.get('reason', '')})"


KIND = Kind(
    group="apiregistration.k8s.io",
    kind="APIService",
    plural="apiservices",
    status=True,
    unconditional_update=False,
    default=_default,
    prepare_create=_create,
    prepare_update=_update,
    validate=_validate,
    warnings=_warnings,
    status_validate=_status,
    validate_name=names.segment_name,
    columns=cells.aged(Service=served_by, Available=available),
    resets={"": STATUS, "status": SPEC_AND_METADATA},
    any_finalizers=True,
    repeats_finalizer_findings=True,
)
