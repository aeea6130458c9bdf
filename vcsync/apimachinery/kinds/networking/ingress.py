"""The kind Ingress: validation, status, warnings and columns. Pure.

Source: Kubernetes' `pkg/apis/networking/validation`,
`pkg/registry/networking/ingress` and `pkg/printers/internalversion`.
"""

from datetime import datetime

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.addresses import parse
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.service import balancer, balancer_status
from vcsync.apimachinery.kinds.networking.references import object_reference
from vcsync.apimachinery.patch.resets import SPEC, STATUS
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    indexed,
    items,
    number,
    part,
    port,
    say,
    text,
)
from vcsync.apimachinery.wire import cells

_CLASS = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDINGS = ("/..", "/.")


def _ingress_spec(spec: Object) -> Findings:
    rules, backend = items(spec, "rules"), spec.get("defaultBackend")
    if not rules and backend is None:
        yield errors.wrong("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified")
    if backend is not None:
        yield from _backend("spec.defaultBackend", backend)
    for rule, here in indexed(spec, "rules", "spec.rules"):
        yield from _rule(here, rule)
    for each, here in indexed(spec, "tls", "spec.tls"):
        for index, host in enumerate(items(each, "hosts")):
            check = names.wildcard_subdomain if "*" in host else names.dns_subdomain
            yield from say(f"{here}.hosts[{index}]", host, check(host))
        secret = text(each, "secretName")
        if secret:
            yield from say(f"{here}.secretName", secret, names.dns_subdomain(secret))
    name = spec.get("ingressClassName")
    if name is not None:
        yield from say("spec.ingressClassName", name, names.dns_subdomain(name))


def _rule(path: str, rule: Object) -> Findings:
    host = text(rule, "host")
    if host:
        if parse(host) is not None:
            yield errors.wrong(f"{path}.host", host, "must be a DNS name, not an IP address")
        check = names.wildcard_subdomain if "*" in host else names.dns_subdomain
        yield from say(f"{path}.host", host, check(host))
    http = rule.get("http")
    if http is None:
        return
    if not items(http, "paths"):
        yield errors.required(f"{path}.http.paths")
    for each, here in indexed(http, "paths", f"{path}.http.paths"):
        yield from _http_path(here, each)


def _http_path(path: str, found: Object) -> Findings:
    kind, place = found.get("pathType"), text(found, "path")
    if kind is None:
        yield errors.required(f"{path}.pathType", "pathType must be specified")
        return
    here = f"{path}.path"
    if kind in ("Exact", "Prefix"):
        if not place.startswith("/"):
            yield errors.wrong(here, place, "must be an absolute path")
        yield from say(
            here, place, [f"must not contain '{each}'" for each in _BAD_SEQUENCES if each in place]
        )
        yield from say(
            here, place, [f"cannot end with '{each}'" for each in _BAD_ENDINGS if place.endswith(each)]
        )
    elif kind == "ImplementationSpecific":
        if place and not place.startswith("/"):
            yield errors.wrong(here, place, "must be an absolute path")
    else:
        yield errors.not_supported(f"{path}.pathType", kind, _PATH_TYPES)
    yield from _backend(f"{path}.backend", part(found, "backend"))


def _backend(path: str, found: Object) -> Findings:
    resource, service = found.get("resource"), found.get("service")
    if resource is not None and service is not None:
        yield errors.wrong(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from object_reference(f"{path}.resource", resource)
    elif service is not None:
        yield from _service_backend(path, service)
    else:
        yield errors.wrong(path, "", "resource or service backend is required")


def _service_backend(path: str, service: Object) -> Findings:
    name = text(service, "name")
    if not name:
        yield errors.required(f"{path}.service.name")
    else:
        yield from say(f"{path}.service.name", name, names.dns_label(name))
    port_name, port_number = text(part(service, "port"), "name"), number(part(service, "port"), "number")
    if port_name and port_number:
        yield errors.wrong(path, "", "cannot set both port name & port number")
    elif port_name:
        yield from say(f"{path}.service.port.name", port_name, names.port_name(port_name))
    elif port_number:
        yield from port(f"{path}.service.port.number", port_number)
    else:
        yield errors.required(path, "port name or number is required")


def _ingress(found: Object) -> list[FieldError]:
    spec = part(found, "spec")
    wrong = list(_ingress_spec(spec))
    note, name = part(found, "metadata", "annotations").get(_CLASS), spec.get("ingressClassName")
    if note is not None and name is not None and note != name:
        message = "must match `ingressClassName` when both are specified"
        wrong.append(errors.wrong(f"annotations.{_CLASS}", note, message))
    return wrong


def _ingress_warnings(new: Object, old: Object | None) -> list[str]:
    named = "ingressClassName" in part(new, "spec")
    if old is None and not named and _CLASS in part(new, "metadata", "annotations"):
        return [f"annotation \"{_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"]
    return []


def hosts(obj: cells.Object, _: datetime) -> str:
    """Return the hosts of an Ingress."""
    rules = cells.look(obj, "spec.rules", ())
    shown: list[str] = []
    cut = False
    for rule in rules:
        cut = cut or len(shown) == cells.SHOWN
        if not cut and rule.get("host"):
            shown.append(rule["host"])
    if not shown:
        return "*"
    return ",".join(shown) + (f" + {len(rules) - cells.SHOWN} more..." if cut else "")


def ingress_ports(obj: cells.Object, _: datetime) -> str:
    """Return the ports of an Ingress."""
    return "80, 443" if cells.look(obj, "spec.tls", ()) else "80"


KIND = Kind(
    group="networking.k8s.io",
    kind="Ingress",
    plural="ingresses",
    generation=("spec",),
    status=True,
    validate=_ingress,
    validate_update=lambda new, _: list(_ingress_spec(part(new, "spec"))),
    warnings=_ingress_warnings,
    status_validate=lambda new, old: list(
        balancer_status(
            "status.loadBalancer",
            part(new, "status", "loadBalancer"),
            part(old, "status", "loadBalancer"),
            None,
        )
    ),
    columns={
        "Name": cells.name,
        "Class": cells.field("spec.ingressClassName", cells.NONE),
        "Hosts": hosts,
        "Address": balancer,
        "Ports": ingress_ports,
        "Age": cells.age,
    },
    resets={"": STATUS, "status": SPEC},
    repeats_finalizer_findings=True,
)
