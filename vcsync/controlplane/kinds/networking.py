"""Ingresses, NetworkPolicies, IngressClasses, ServiceCIDRs, IPAddresses. Pure.

Source: Kubernetes' `pkg/apis/networking`.
"""

import ipaddress

from vcsync.controlplane import errors
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.address_warnings import cidr_warnings
from vcsync.controlplane.kinds.addresses import canonical_address, canonical_cidr, cidr, parse, range_of
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.pod_defaults import fill
from vcsync.controlplane.kinds.rules import (
    IMMUTABLE,
    Findings,
    Object,
    immutable,
    indexed,
    items,
    number,
    one_of,
    part,
    port,
    say,
    selector,
    text,
)
from vcsync.controlplane.kinds.services import balancer_status

_GROUP = "networking.k8s.io"
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
        yield from _reference(f"{path}.resource", resource)
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


def _reference(path: str, found: Object) -> Findings:
    group = found.get("apiGroup")
    if group is not None:
        yield from say(f"{path}.apiGroup", group, names.dns_subdomain(group))
    yield from _segments(path, found, ("kind", "name"))


def _segments(path: str, found: Object, keys: tuple[str, ...]) -> Findings:
    for key in keys:
        value = text(found, key)
        if not value:
            yield errors.required(f"{path}.{key}")
        else:
            yield from say(f"{path}.{key}", value, names.path_segment(value))


def _ingress(found: Object) -> list[FieldError]:
    spec = part(found, "spec")
    wrong = list(_ingress_spec(spec))
    note, name = part(found, "metadata", "annotations").get(_CLASS), spec.get("ingressClassName")
    if note is not None and name is not None and note != name:
        told = "must match `ingressClassName` when both are specified"
        wrong.append(errors.wrong(f"annotations.{_CLASS}", note, told))
    return wrong


def _ingress_warnings(new: Object, old: Object | None) -> list[str]:
    if old is None and _CLASS in part(new, "metadata", "annotations"):
        return [f"annotation \"{_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"]
    return []


def _policy_default(found: Object) -> None:
    spec = found.get("spec")
    if not isinstance(spec, dict):
        return
    if not items(spec, "policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if items(spec, "egress") else ["Ingress"]
    for key in ("ingress", "egress"):
        for rule in items(spec, key):
            for each in items(rule, "ports"):
                fill(each, {"protocol": "TCP"})


def _policy(found: Object, known: tuple[str, ...] = ()) -> Findings:
    spec = part(found, "spec")
    yield from selector("spec.podSelector", part(spec, "podSelector"))
    for key, side in (("ingress", "from"), ("egress", "to")):
        for rule, here in indexed(spec, key, f"spec.{key}"):
            for each, place in indexed(rule, "ports", f"{here}.ports"):
                yield from _policy_port(place, each)
            for each, place in indexed(rule, side, f"{here}.{side}"):
                yield from _peer(place, each, known)
    types = items(spec, "policyTypes")
    if len(types) > 2:
        yield errors.wrong("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for index, each in enumerate(types):
        yield from one_of(f"spec.policyTypes[{index}]", each, ("Ingress", "Egress"))


def _policy_port(path: str, found: Object) -> Findings:
    if "protocol" in found:
        yield from one_of(f"{path}.protocol", found["protocol"], ("TCP", "UDP", "SCTP"))
    value, end = found.get("port"), found.get("endPort")
    if isinstance(value, int):
        yield from port(f"{path}.port", value)
        if end is not None:
            if end < value:
                yield errors.wrong(f"{path}.endPort", value, "must be greater than or equal to `port`")
            yield from port(f"{path}.endPort", end)
    elif value is not None:
        if end is not None:
            yield errors.wrong(f"{path}.endPort", end, "may not be specified when `port` is non-numeric")
        yield from say(f"{path}.port", value, names.port_name(value))
    elif end is not None:
        yield errors.wrong(f"{path}.endPort", end, "may not be specified when `port` is not specified")


def _peer(path: str, found: Object, known: tuple[str, ...]) -> Findings:
    pods, namespaces, block = (found.get(key) for key in ("podSelector", "namespaceSelector", "ipBlock"))
    yield from selector(f"{path}.podSelector", pods)
    yield from selector(f"{path}.namespaceSelector", namespaces)
    if block is not None:
        yield from _block(f"{path}.ipBlock", block, known)
    if pods is None and namespaces is None and block is None:
        yield errors.required(path, "must specify a peer")
    elif block is not None and (pods is not None or namespaces is not None):
        yield errors.not_allowed(path, "may not specify both ipBlock and another peer")


def _block(path: str, found: Object, known: tuple[str, ...]) -> Findings:
    whole = text(found, "cidr")
    if not whole:
        yield errors.required(f"{path}.cidr")
        return
    yield from cidr(f"{path}.cidr", whole, known)
    outer = range_of(whole)
    if outer is None:
        return
    for index, each in enumerate(items(found, "except")):
        here = f"{path}.except[{index}]"
        yield from cidr(here, each, known)
        inner = range_of(each)
        if inner is not None and not _inside(inner, outer):
            yield errors.wrong(here, each, "must be a strict subset of `cidr`")


def _inside(inner: tuple[object, int], outer: tuple[object, int]) -> bool:
    network = ipaddress.ip_network(f"{outer[0]}/{outer[1]}", strict=False)
    address = ipaddress.ip_network(f"{inner[0]}/{inner[1]}", strict=False).network_address
    return address in network and outer[1] < inner[1]


def _policy_update(new: Object, old: Object) -> list[FieldError]:
    known: list[str] = []
    for key, side in (("ingress", "from"), ("egress", "to")):
        for rule in items(part(old, "spec"), key):
            for peer in items(rule, side):
                block = part(peer, "ipBlock")
                known += [text(block, "cidr"), *items(block, "except")] if block else []
    return list(_policy(new, tuple(known)))


def _policy_warnings(new: Object, _: Object | None) -> list[str]:
    found: list[str] = []
    for key, side in (("ingress", "from"), ("egress", "to")):
        for rule, here in indexed(part(new, "spec"), key, f"spec.{key}"):
            for peer, place in indexed(rule, side, f"{here}.{side}"):
                block = part(peer, "ipBlock")
                if block:
                    found += cidr_warnings(f"{place}.ipBlock.cidr", text(block, "cidr"))
                    for index, each in enumerate(items(block, "except")):
                        found += cidr_warnings(f"{place}.ipBlock.except[{index}]", each)
    return found


def _class_default(found: Object) -> None:
    parameters = part(found, "spec").get("parameters")
    if isinstance(parameters, dict):
        fill(parameters, {"scope": "Cluster"})


def _class(found: Object) -> Findings:
    spec = part(found, "spec")
    controller = text(spec, "controller")
    if names.size(controller) > 250:
        yield errors.too_long("spec.controller", 250)
    yield from _prefixed_path("spec.controller", controller)
    parameters = spec.get("parameters")
    if parameters is None:
        return
    path = "spec.parameters"
    yield from _reference(path, parameters)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    yield from one_of(f"{path}.scope", scope or "", ("Cluster", "Namespace"))
    if scope == "Namespace":
        if namespace is None:
            yield errors.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
        else:
            yield from say(f"{path}.namespace", namespace, names.dns_label(namespace))
    if scope == "Cluster" and namespace is not None:
        yield errors.not_allowed(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")


def _prefixed_path(path: str, value: str) -> Findings:
    domain, slash, rest = value.partition("/")
    if not value:
        yield errors.required(path)
    elif not (slash and domain and rest):
        yield errors.wrong(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from say(path, domain, names.dns_subdomain(domain))
        yield from say(path, rest, names.http_path(rest))


def _class_update(new: Object, old: Object) -> list[FieldError]:
    now, was = text(part(new, "spec"), "controller"), text(part(old, "spec"), "controller")
    return [*immutable("spec.controller", now, was), *_class(new)]


def _parent(found: Object) -> Findings:
    parent = part(found, "spec").get("parentRef")
    if parent is None:
        yield errors.required("spec.parentRef")
        return
    group, namespace = text(parent, "group"), text(parent, "namespace")
    if group:
        yield from say("spec.parentRef.group", group, names.dns_subdomain(group))
    yield from _segments("spec.parentRef", parent, ("resource", "name"))
    if namespace:
        yield from say("spec.parentRef.namespace", namespace, names.path_segment(namespace))


def _parent_update(new: Object, old: Object) -> list[FieldError]:
    parent = part(new, "spec").get("parentRef")
    shown = parent and {
        key.capitalize(): text(parent, key) for key in ("group", "resource", "namespace", "name")
    }
    found = list(_parent(new))
    if parent != part(old, "spec").get("parentRef"):
        found.append(errors.wrong("spec.parentRef", shown, IMMUTABLE))
    return found


def _ranges(found: Object) -> Findings:
    ranges, path = items(part(found, "spec"), "cidrs"), "spec.cidrs"
    if not ranges:
        yield errors.required(path, "at least one CIDR required")
        return
    if len(ranges) > 2:
        yield errors.wrong(path, {"CIDRs": ranges}, "may only hold up to 2 values")
        return
    for index, each in enumerate(ranges):
        yield from canonical_cidr(f"{path}[{index}]", each)
    versions = [parsed[0].version for each in ranges if (parsed := range_of(each))]
    if len(versions) == 2 and versions[0] == versions[1]:
        told = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield errors.wrong(path, ranges, told)


def _ranges_update(new: Object, old: Object) -> list[FieldError]:
    now, was, path = items(part(new, "spec"), "cidrs"), items(part(old, "spec"), "cidrs"), "spec.cidrs"
    if len(now) == len(was):
        pairs = enumerate(zip(now, was, strict=True))
        return [
            errors.wrong(f"{path}[{index}]", each, IMMUTABLE) for index, (each, old) in pairs if each != old
        ]
    if (len(was), len(now)) == (1, 2):
        changed = [errors.wrong(f"{path}[0]", now[0], IMMUTABLE)] if now[0] != was[0] else []
        return [*changed, *_ranges(new)]
    return [errors.wrong(path, now or None, IMMUTABLE)]


def _address_name(name: str, _: bool) -> list[str]:
    return [each.body.split(": ", 2)[2] for each in canonical_address("", name)]


NETWORKING = {
    (_GROUP, "IPAddress"): Part(
        validate=lambda found: list(_parent(found)),
        validate_update=_parent_update,
        name=_address_name,
    ),
    (_GROUP, "Ingress"): Part(
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
    ),
    (_GROUP, "IngressClass"): Part(
        default=_class_default, validate=lambda found: list(_class(found)), validate_update=_class_update
    ),
    (_GROUP, "NetworkPolicy"): Part(
        default=_policy_default,
        validate=lambda found: list(_policy(found)),
        validate_update=_policy_update,
        warnings=_policy_warnings,
    ),
    (_GROUP, "ServiceCIDR"): Part(
        validate=lambda found: list(_ranges(found)), validate_update=_ranges_update
    ),
}
