"""The kind Service: defaults, validation, allowed updates, status, warnings and columns. Pure.

Source: `ValidateService*` in Kubernetes' `pkg/apis/core/validation`, `pkg/registry/core/service/strategy.go`.
"""

from datetime import datetime
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.addresses import address, cidr, parse, reachable
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core import service_network
from vcsync.apimachinery.kinds.core.pod_containers import PROTOCOLS
from vcsync.apimachinery.kinds.core.service_network import accessible, headless, needs_health_check
from vcsync.apimachinery.patch.resets import SPEC, STATUS
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    choice,
    indexed,
    items,
    labels,
    number,
    one_of,
    part,
    port,
    port_or_name,
    say,
    text,
)
from vcsync.apimachinery.wire import cells

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_HINTS = "service.kubernetes.io/topology-aware-hints"
_MODE = "service.kubernetes.io/topology-mode"
_ONLY_BALANCER = "may only be used when `type` is 'LoadBalancer'"
_LONGEST_AFFINITY = 86400


def _default(found: Object) -> None:
    spec = found.get("spec")
    if not isinstance(spec, dict):
        return
    fill(spec, {"sessionAffinity": "None", "type": "ClusterIP"})
    _affinity_default(spec)
    for each in items(spec, "ports"):
        fill(each, {"protocol": "TCP"})
        if each.get("targetPort") in (None, 0, ""):
            each["targetPort"] = each.get("port", 0)
    kind = spec["type"]
    if accessible(spec):
        fill(spec, {"externalTrafficPolicy": "Cluster"})
    if kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        fill(spec, {"internalTrafficPolicy": "Cluster"})
    if kind == "LoadBalancer":
        fill(spec, {"allocateLoadBalancerNodePorts": True})
        for each in items(part(found, "status", "loadBalancer"), "ingress"):
            if text(each, "ip"):
                fill(each, {"ipMode": "VIP"})


def _affinity_default(spec: Object) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP" and "timeoutSeconds" not in part(
        spec, "sessionAffinityConfig", "clientIP"
    ):
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}


def _prepare_create(new: Object, _: Context) -> None:
    service_network.normalize(new, None)
    _drop_internal_policy(part(new, "spec"))


def _prepare_update(new: Object, old: Object, _: Context) -> None:
    service_network.normalize(new, old)
    service_network.patch_from_old(new, old)
    service_network.drop_dependent(new, old)
    _drop_internal_policy(part(new, "spec"))


def _drop_internal_policy(spec: Object) -> None:
    """Drop `internalTrafficPolicy` of an ExternalName Service. Upstream stores it and drops it on each read."""
    if text(spec, "type") == "ExternalName" and spec.get("internalTrafficPolicy") in _POLICIES:
        del spec["internalTrafficPolicy"]


def _findings(found: Object, old: Object | None) -> Findings:
    spec, notes = part(found, "spec"), part(found, "metadata", "annotations")
    if _HINTS in notes and _MODE in notes and notes[_HINTS] != notes[_MODE]:
        message = f"must match annotations[{_HINTS}] when both are specified"
        yield errors.wrong(f"metadata.annotations[{_MODE}]", notes[_MODE], message)
    kind = text(spec, "type")
    if not items(spec, "ports") and not headless(spec) and kind != "ExternalName":
        yield errors.required("spec.ports")
    yield from _type_rules(spec, kind)
    seen: set[str] = set()
    for each, here in indexed(spec, "ports", "spec.ports"):
        yield from _port(here, each, len(items(spec, "ports")) > 1, seen)
    yield from labels("spec.selector", part(spec, "selector"))
    yield from _affinity(spec)
    yield from service_network.cluster_ip_fields(spec, part(old, "spec") if old else None)
    known = items(part(old, "spec"), "externalIPs")
    for index, ip in enumerate(items(spec, "externalIPs")):
        wrong = list(address(f"spec.externalIPs[{index}]", ip, known))
        yield from wrong or reachable(f"spec.externalIPs[{index}]", ip)
    yield from choice("spec.type", kind, _TYPES)
    yield from _unique_ports(spec, kind)
    yield from _source_ranges(found, old, spec, kind)
    yield from _balancer(spec, kind)
    yield from _policies(spec, kind)


def _type_rules(spec: Object, kind: str) -> Findings:
    if kind in ("LoadBalancer", "NodePort") and headless(spec):
        yield errors.wrong("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind != "ExternalName":
        return
    for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(key):
            yield errors.not_allowed(f"spec.{key}", "may not be set for ExternalName services")
    name = text(spec, "externalName").removesuffix(".")
    if name:
        yield from say("spec.externalName", name, names.dns_subdomain(name))
    else:
        yield errors.required("spec.externalName")


def _port(path: str, found: Object, named: bool, seen: set[str]) -> Findings:
    name = text(found, "name")
    if name:
        yield from say(f"{path}.name", name, names.dns_label(name))
        if name in seen:
            yield errors.duplicate(f"{path}.name", name)
        seen.add(name)
    elif named:
        yield errors.required(f"{path}.name")
    yield from port(f"{path}.port", number(found, "port"))
    yield from choice(f"{path}.protocol", text(found, "protocol"), PROTOCOLS)
    yield from port_or_name(f"{path}.targetPort", found.get("targetPort"))
    if "appProtocol" in found:
        yield from say(
            f"{path}.appProtocol", found["appProtocol"], names.qualified_name(found["appProtocol"])
        )


def _affinity(spec: Object) -> Findings:
    kind, config = text(spec, "sessionAffinity"), spec.get("sessionAffinityConfig")
    yield from choice("spec.sessionAffinity", kind, ("ClientIP", "None"))
    here = "spec.sessionAffinityConfig"
    if kind == "ClientIP":
        seconds = part(config, "clientIP").get("timeoutSeconds")
        if seconds is None:
            yield errors.required(here, "when session affinity type is ClientIP")
        elif not 0 < seconds <= _LONGEST_AFFINITY:
            message = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
            yield errors.wrong(f"{here}.clientIP.timeoutSeconds", seconds, message)
    elif kind == "None" and config is not None:
        yield errors.not_allowed(here, "must not be set when session affinity is None")


def _unique_ports(spec: Object, kind: str) -> Findings:
    if kind == "ClusterIP":
        for each, here in indexed(spec, "ports", "spec.ports"):
            if number(each, "nodePort"):
                yield errors.not_allowed(f"{here}.nodePort", "may not be used when `type` is 'ClusterIP'")
    nodes: set[tuple[str, int]] = set()
    for each, here in indexed(spec, "ports", "spec.ports"):
        key = (text(each, "protocol"), number(each, "nodePort"))
        if key[1] and key in nodes:
            yield errors.duplicate(f"{here}.nodePort", key[1])
        nodes.add(key)
    seen: set[tuple[str, int]] = set()
    for each, here in indexed(spec, "ports", "spec.ports"):
        key = (text(each, "protocol"), number(each, "port"))
        if key in seen:
            shown = {
                "Name": "",
                "Protocol": key[0],
                "AppProtocol": None,
                "Port": key[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            yield errors.duplicate(here, shown)
        seen.add(key)


def _source_ranges(found: Object, old: Object | None, spec: Object, kind: str) -> Findings:
    notes, before = part(found, "metadata", "annotations"), part(old, "metadata", "annotations")
    if items(spec, "loadBalancerSourceRanges"):
        here = "spec.LoadBalancerSourceRanges"
        if kind != "LoadBalancer":
            yield errors.not_allowed(here, _ONLY_BALANCER)
        known = [each.strip() for each in items(part(old, "spec"), "loadBalancerSourceRanges")]
        for index, value in enumerate(items(spec, "loadBalancerSourceRanges")):
            yield from cidr(f"{here}[{index}]", value.strip(), known)
    elif _RANGES in notes:
        here = f"metadata.annotations[{_RANGES}]"
        if kind != "LoadBalancer":
            yield errors.not_allowed(here, _ONLY_BALANCER)
        if notes[_RANGES] != before.get(_RANGES) and notes[_RANGES].strip():
            for value in notes[_RANGES].strip().split(","):
                yield from cidr(here, value.strip())


def _balancer(spec: Object, kind: str) -> Findings:
    if "allocateLoadBalancerNodePorts" in spec and kind != "LoadBalancer":
        yield errors.not_allowed("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCER)
    if "allocateLoadBalancerNodePorts" not in spec and kind == "LoadBalancer":
        yield errors.required("allocateLoadBalancerNodePorts")
    yield from _balancer_class(spec, kind)


def _balancer_class(spec: Object, kind: str) -> Findings:
    name = spec.get("loadBalancerClass")
    if name is None:
        return
    if kind == "LoadBalancer":
        yield from say("spec.loadBalancerClass", name, names.qualified_name(name))
    else:
        yield errors.not_allowed("spec.loadBalancerClass", _ONLY_BALANCER)


def _policies(spec: Object, kind: str) -> Findings:
    policy, health = text(spec, "externalTrafficPolicy"), number(spec, "healthCheckNodePort")
    if accessible(spec):
        yield from choice("spec.externalTrafficPolicy", policy, _POLICIES)
    elif policy:
        yield errors.wrong(
            "spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services"
        )
    if needs_health_check(spec):
        if not health:
            yield errors.required("spec.healthCheckNodePort")
        else:
            yield from port("spec.healthCheckNodePort", health)
    elif health:
        message = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield errors.wrong("spec.healthCheckNodePort", health, message)
    if "internalTrafficPolicy" in spec:
        yield from one_of("spec.internalTrafficPolicy", spec["internalTrafficPolicy"], _POLICIES)
    elif kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        yield errors.required("spec.internalTrafficPolicy")
    if "trafficDistribution" in spec:
        yield from one_of("spec.trafficDistribution", spec["trafficDistribution"], _DISTRIBUTIONS)


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    spec = part(new, "spec")
    # `changes` and `_findings` both check the class of an update, and each finding is reported as a cause.
    again = _balancer_class(spec, text(spec, "type"))
    return [*service_network.changes(spec, part(old, "spec")), *again, *_findings(new, old)]


def _status(new: Object, old: Object) -> list[FieldError]:
    return list(
        balancer_status(
            "status.loadBalancer",
            part(new, "status", "loadBalancer"),
            part(old, "status", "loadBalancer"),
            part(new, "spec"),
        )
    )


def balancer_status(path: str, status: Object, before: Object, spec: Object | None) -> Findings:
    """Check the status of the load balancer of a Service, or of an Ingress if `spec` is None."""
    ingress = items(status, "ingress")
    if spec is not None and text(spec, "type") != "LoadBalancer" and ingress:
        yield errors.not_allowed(f"{path}.ingress", "may only be used when `spec.type` is 'LoadBalancer'")
        return
    known = [text(each, "ip") for each in items(before, "ingress")]
    for each, here in indexed(status, "ingress", f"{path}.ingress"):
        ip, host = text(each, "ip"), text(each, "hostname")
        if ip:
            yield from address(f"{here}.ip", ip, known)
        if spec is not None:
            yield from _ip_mode(here, each, ip)
        if host:
            yield from say(f"{here}.hostname", host, names.dns_subdomain(host))
            if parse(host) is not None:
                yield errors.wrong(f"{here}.hostname", host, "must be a DNS name, not an IP address")


def _ip_mode(path: str, found: Object, ip: str) -> Findings:
    mode = found.get("ipMode")
    if ip and mode is None:
        yield errors.required(f"{path}.ipMode", "must be specified when `ip` is set")
    elif not ip and mode is not None:
        yield errors.not_allowed(f"{path}.ipMode", "may not be specified when `ip` is not set")
    elif mode is not None:
        yield from one_of(f"{path}.ipMode", mode, ("Proxy", "VIP"))


def _warnings(new: Object, _old: Object | None) -> list[str]:
    spec, found = part(new, "spec"), []
    kind = text(spec, "type")
    if _HINTS in part(new, "metadata", "annotations"):
        found.append(f"annotation {_HINTS} is deprecated, please use {_MODE} instead")
    without = kind == "ClusterIP" and text(spec, "clusterIP") == "None"
    if without:
        if text(spec, "loadBalancerIP"):
            found.append("spec.loadBalancerIP is ignored for headless services")
        if items(spec, "externalIPs"):
            found.append("spec.externalIPs is ignored for headless services")
        if text(spec, "sessionAffinity") != "None":
            found.append("spec.SessionAffinity is ignored for headless services")
    if items(spec, "externalIPs"):
        if kind == "ExternalName":
            found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
        elif not without:
            found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if kind != "ExternalName" and text(spec, "externalName"):
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if text(spec, "trafficDistribution") == "PreferClose":
        found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return found


def cluster_ip(obj: cells.Object, _: datetime) -> Any:
    """Return a Service's first cluster IP."""
    return next(iter(cells.look(obj, "spec.clusterIPs", ())), cells.NONE)


def external_ip(obj: cells.Object, now: datetime) -> str:
    """Return a Service's external addresses."""
    kind, own = cells.look(obj, "spec.type", ""), list(cells.look(obj, "spec.externalIPs", ()))
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(own) or cells.NONE
    if kind == "LoadBalancer":
        given = balancer(obj, now)
        return ",".join([*([given] if given else []), *own]) or "<pending>"
    return str(cells.look(obj, "spec.externalName", "")) if kind == "ExternalName" else cells.UNKNOWN


def balancer(obj: cells.Object, _: datetime) -> str:
    """Return the addresses of a Service's load balancer."""
    ingress = cells.look(obj, "status.loadBalancer.ingress", ())
    return ",".join(sorted({text for each in ingress if (text := each.get("ip") or each.get("hostname"))}))


def service_ports(obj: cells.Object, _: datetime) -> str:
    """Return a Service's ports, with their node ports."""
    texts = []
    for each in cells.look(obj, "spec.ports", ()):
        on_node = f":{each['nodePort']}" if each.get("nodePort") else ""
        texts.append(f"{each.get('port', 0)}{on_node}/{each.get('protocol', '')}")
    return ",".join(texts) or cells.NONE


KIND = Kind(
    group="",
    kind="Service",
    plural="services",
    status=True,
    create_on_update=True,
    default=_default,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    validate=lambda found: list(_findings(found, None)),
    validate_update=_validate_update,
    warnings=_warnings,
    fields=lambda found: {
        "spec.clusterIP": text(part(found, "spec"), "clusterIP"),
        "spec.type": text(part(found, "spec"), "type"),
    },
    status_validate=_status,
    validate_name=names.label_name,
    columns={
        "Name": cells.name,
        "Type": cells.field("spec.type"),
        "Cluster-IP": cluster_ip,
        "External-IP": external_ip,
        "Port(s)": service_ports,
        "Age": cells.age,
        "Selector": cells.labels_at("spec.selector"),
    },
    resets={"": STATUS, "status": SPEC},
    returned_on_deletion=True,
)
