"""Validation and updates of a Service's addresses and IP families. Pure.

Source: `ValidateServiceClusterIPsRelatedFields` in Kubernetes' `pkg/apis/core/validation` and
`pkg/registry/core/service`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.addresses import address, dual, is_v6
from vcsync.apimachinery.validation.fields import Findings, Object, items, one_of, part, text

_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_ONCE = "may not change once set"


def headless(spec: Object) -> bool:
    """Return whether a Service is headless."""
    return items(spec, "clusterIPs") == ["None"]


def accessible(spec: Object) -> bool:
    """Return whether a Service is reachable from outside the cluster."""
    kind = text(spec, "type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(items(spec, "externalIPs")))


def needs_health_check(spec: Object) -> bool:
    """Return whether a Service has a health check node port for load balancers."""
    return text(spec, "type") == "LoadBalancer" and text(spec, "externalTrafficPolicy") == "Local"


def normalize(new: Object, old: Object | None) -> None:
    """Derive clusterIPs from clusterIP, since clients may know only one of them (`normalizeClusterIPs`)."""
    spec, before = part(new, "spec"), part(old, "spec")
    ip, ips = text(spec, "clusterIP"), items(spec, "clusterIPs")
    if old is None:
        if ip and not ips:
            spec["clusterIPs"] = [ip]
    elif ip == text(before, "clusterIP"):
        if not ips and items(before, "clusterIPs"):
            spec["clusterIPs"] = items(before, "clusterIPs")
    elif ips == items(before, "clusterIPs"):
        spec.pop("clusterIPs", None)
        if ip:
            spec["clusterIPs"] = [ip]


def patch_from_old(new: Object, old: Object) -> None:
    """Restore allocated values that a client omitted (`patchAllocatedValues`)."""
    spec, before = part(new, "spec"), part(old, "spec")
    if "ExternalName" not in (text(spec, "type"), text(before, "type")):
        for key in ("clusterIP", "clusterIPs"):
            if not spec.get(key) and before.get(key):
                spec[key] = before[key]
    if needs_node_port(spec) and needs_node_port(before):
        used = {each.get("nodePort") for each in items(spec, "ports")}
        known = {text(each, "name"): each.get("nodePort") for each in items(before, "ports")}
        for each in items(spec, "ports"):
            kept = known.get(text(each, "name"))
            if not each.get("nodePort") and kept and kept not in used:
                each["nodePort"] = kept
    both = needs_health_check(spec) and needs_health_check(before)
    if both and not spec.get("healthCheckNodePort") and before.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before["healthCheckNodePort"]


def needs_node_port(spec: Object) -> bool:
    """Return whether a Service has node ports."""
    return text(spec, "type") in ("NodePort", "LoadBalancer")


def drop_dependent(new: Object, old: Object) -> None:
    """Drop fields that only the old type has, unless the client changed them."""
    spec, before = part(new, "spec"), part(old, "spec")
    kind, was = text(spec, "type"), text(before, "type")
    if was != "ExternalName" and kind == "ExternalName":
        _drop_same(spec, before, "clusterIP", "clusterIPs")
        _drop_same(spec, before, "ipFamilies")
        _drop_same(spec, before, "ipFamilyPolicy")
    if needs_node_port(before) and not needs_node_port(spec):
        ports = [{each.get("nodePort") for each in items(one, "ports")} - {None, 0} for one in (spec, before)]
        if ports[0] <= ports[1]:
            for each in items(spec, "ports"):
                each.pop("nodePort", None)
    if needs_health_check(before) and not needs_health_check(spec):
        _drop_same(spec, before, "healthCheckNodePort")
    if was == "LoadBalancer" and kind != "LoadBalancer":
        _drop_same(spec, before, "allocateLoadBalancerNodePorts")
        _drop_same(spec, before, "loadBalancerClass")
    if accessible(before) and not accessible(spec):
        _drop_same(spec, before, "externalTrafficPolicy")
    if kind != "LoadBalancer" and "status" in new:
        new["status"] = {**part(new, "status"), "loadBalancer": {}}


def _drop_same(spec: Object, before: Object, *keys: str) -> None:
    if all(spec.get(key) == before.get(key) for key in keys):
        for key in keys:
            spec.pop(key, None)


def cluster_ip_fields(spec: Object, before: Object | None) -> Findings:
    """Check that addresses, families and family policy agree."""
    if text(spec, "type") == "ExternalName":
        return
    ip, ips = text(spec, "clusterIP"), items(spec, "clusterIPs")
    yield from _first_address(ip, ips)
    yield from _families(spec)
    known = items(before, "clusterIPs")
    wrong: list[FieldError] = []
    for index, each in enumerate(ips):
        if index == 0 and each == "None":
            if len(ips) > 1:
                wrong.append(errors.wrong("spec.clusterIPs", ips, "'None' must be the first and only value"))
            continue
        wrong.extend(address(f"spec.clusterIPs[{index}]", each, known))
    yield from wrong
    if len(ips) > 2:
        yield errors.wrong("spec.clusterIPs", ips, "may only hold up to 2 values")
    if wrong:
        return
    if len(ips) > 1 and not dual(ips):
        yield errors.wrong("spec.clusterIPs", ips, "may specify no more than one IP for each IP family")
    if not headless(spec):
        yield from _expected_families(ips, items(spec, "ipFamilies"))


def _expected_families(ips: list[str], families: list[str]) -> Findings:
    for index, (each, family) in enumerate(zip(ips, families, strict=False)):
        if family in ("IPv4", "IPv6") and is_v6(each) != (family == "IPv6"):
            message = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield errors.wrong(f"spec.clusterIPs[{index}]", each, message)


def _first_address(ip: str, ips: list[str]) -> Findings:
    if ip and not ips:
        yield errors.required("spec.clusterIPs")
    elif ip and ips[0] != ip:
        yield errors.wrong("spec.clusterIPs", ips, "first value must match `clusterIP`")
    elif ips and not ip:
        yield errors.wrong("spec.clusterIPs", ips, "must be empty when `clusterIP` is not specified")


def _families(spec: Object) -> Findings:
    seen: set[str] = set()
    for index, each in enumerate(items(spec, "ipFamilies")):
        yield from one_of(f"spec.ipFamilies[{index}]", each, ("IPv4", "IPv6"))
        if each in seen:
            yield errors.duplicate(f"spec.ipFamilies[{index}]", each)
        seen.add(each)
    if "ipFamilyPolicy" in spec:
        yield from one_of("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], _FAMILY_POLICIES)


def changes(spec: Object, before: Object) -> Findings:
    """Check changes of addresses, families and the load balancer's class."""
    if "ExternalName" not in (text(spec, "type"), text(before, "type")):
        if not (headless(spec) and headless(before)):
            yield from _address_changes(spec, before)
        if headless(spec) == headless(before) and not headless(spec):
            yield from _family_changes(spec, before)
    if text(spec, "type") == text(before, "type") == "LoadBalancer":
        name = spec.get("loadBalancerClass")
        if name != before.get("loadBalancerClass"):
            yield errors.wrong("spec.loadBalancerClass", name, _ONCE)
    both = needs_health_check(spec) and needs_health_check(before)
    if both and spec.get("healthCheckNodePort", 0) != before.get("healthCheckNodePort", 0):
        yield errors.not_allowed("spec.healthCheckNodePort", "field is immutable")


def _address_changes(spec: Object, before: Object) -> Findings:
    now, was = items(spec, "clusterIPs"), items(before, "clusterIPs")
    if len(now) == len(was):
        for index, (each, old) in enumerate(zip(now, was, strict=True)):
            if each != old:
                yield errors.wrong(f"spec.clusterIPs[{index}]", now, _ONCE)
        return
    if len(was) > len(now) and not now:
        yield errors.wrong("spec.clusterIPs[0]", None, "primary clusterIP can not be unset")
    if now and was and now[0] != was[0]:
        yield errors.wrong("spec.clusterIPs[0]", now, _ONCE)
    if len(was) > len(now) == 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        message = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        yield errors.wrong("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), message)


def _family_changes(spec: Object, before: Object) -> Findings:
    now, was = items(spec, "ipFamilies"), items(before, "ipFamilies")
    if len(now) == len(was):
        if now != was:
            yield errors.wrong("spec.ipFamilies[0]", now, _ONCE)
        return
    if len(was) > len(now) and not items(spec, "clusterIPs"):
        yield errors.wrong("spec.ipFamilies[0]", now, "primary ipFamily can not be unset")
    if now and was and now[0] != was[0]:
        yield errors.wrong("spec.ipFamilies[0]", items(spec, "clusterIPs"), _ONCE)
    if len(was) > len(now) == 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        message = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        yield errors.wrong("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), message)
