"""APIServices: which group and version is served by what. Pure.

Source: kube-aggregator's `pkg/apis/apiregistration/validation`, `pkg/apis/apiregistration/v1/defaults.go`,
`pkg/registry/apiservice/strategy.go`.
"""

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Context
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.pod_defaults import fill
from vcsync.controlplane.kinds.rules import Findings, Object, number, part, say, text

_HTTPS = 443
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
    name, wanted = text(part(found, "metadata"), "name"), f"{text(spec, 'version')}.{text(spec, 'group')}"
    if name and not names.path_segment(name) and name != wanted:
        yield errors.wrong("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{wanted}"')


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
            told = "local APIServices may not have insecureSkipTLSVerify"
            yield errors.wrong("spec.insecureSkipTLSVerify", True, told)
        return
    for key in ("namespace", "name"):
        if not text(service, key):
            yield errors.required(f"spec.service.{key}")
    port = number(service, "port")
    if not 0 < port <= _HIGHEST_PORT:
        told = "port is not valid: must be between 1 and 65535, inclusive"
        yield errors.wrong("spec.service.port", port, told)
    if insecure and authority:
        yield errors.wrong("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


def _create(found: Object, context: Context) -> None:
    """Tell that what is served right here is available, at once."""
    if part(found, "spec").get("service") is None:
        state = {
            "type": "Available",
            "status": "True",
            "lastTransitionTime": context.now,
            "reason": "Local",
            "message": "Local APIServices are always available",
        }
        found["status"] = {"conditions": [state]}


API_SERVICES = {
    ("apiregistration.k8s.io", "APIService"): Part(
        default=_default, prepare_create=_create, validate=_validate
    )
}
