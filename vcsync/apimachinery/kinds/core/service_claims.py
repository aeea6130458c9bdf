"""Allocation of the cluster IPs and node ports of Services. Pure.

Source: Kubernetes' `pkg/registry/core/service/storage/alloc.go`. A tenant has one range of IPv4 addresses and one of
node ports. `allocate` fills in the Service and returns the keys that it claims. The caller reserves these keys in the
transaction that writes the Service, and calls `allocate` again if a key that was chosen at random is taken.
"""

import ipaddress
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.addresses import is_v6
from vcsync.apimachinery.kinds.core.service_network import (
    cluster_ip_fields,
    needs_health_check,
    needs_node_port,
)
from vcsync.apimachinery.validation.fields import Object, items, number, part, text

_TAKEN = "provided port is already allocated"
Choose = Callable[[int], int]
"""(n) -> a random integer from 0 to n-1."""


@dataclass(frozen=True, slots=True)
class Network:
    """A tenant's address ranges for Services, and its node ports: `first_port` to `last_port`, both inclusive.

    Attributes:
        addresses: the range that every tenant has.
        further: ranges that the tenant has in addition, from which addresses are chosen if there are any. Upstream chooses
            from all ranges; here a tenant gets addresses that super clusters have for it, too.
    """

    addresses: str
    first_port: int = 30000
    last_port: int = 32767
    further: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """One address or port that a Service claims.

    Attributes:
        key: unique in the tenant, such as `ip/10.0.0.7` or `port/30080`.
        taken: the finding if another Service holds the key. None: the key was chosen at random, so choose another.
    """

    key: str
    taken: FieldError | None


@dataclass(frozen=True, slots=True)
class Allocation:
    """The claims of a Service, and the findings. If there are findings, the Service must not be written."""

    claims: tuple[Claim, ...] = ()
    findings: tuple[FieldError, ...] = ()


def held(service: Object) -> frozenset[str]:
    """Return the keys that a stored Service holds."""
    spec = part(service, "spec")
    keys = {f"ip/{each}" for each in items(spec, "clusterIPs") if each not in ("", "None")}
    if text(spec, "type") == "ExternalName":
        keys = set()
    if needs_node_port(spec):
        keys |= {f"port/{each['nodePort']}" for each in items(spec, "ports") if each.get("nodePort")}
    if needs_health_check(spec) and spec.get("healthCheckNodePort"):
        keys.add(f"port/{spec['healthCheckNodePort']}")
    return frozenset(keys)


def allocate(
    service: Object,
    old: Object | None,
    network: Network,
    choose: Choose,
    *,
    avoid: Collection[str] = (),
    dry_run: bool = False,
) -> Allocation:
    """Fill in the IP families, addresses and node ports of a Service that is being written.

    Args:
        service: changed in place.
        old: the stored Service. None: the Service is being created.
        network: the tenant's ranges.
        choose: returns a random integer.
        avoid: keys of addresses and ports that other Services hold.
        dry_run: nothing is reserved. Upstream does not check the range of ports then either.
    """
    spec = part(service, "spec")
    kept = held(old) if old else frozenset()
    claims: list[Claim] = []
    if text(spec, "type") != "ExternalName":
        wrong = _families(spec, part(old, "spec") if old else None)
        if wrong:
            return Allocation(findings=tuple(wrong))
        if items(spec, "clusterIPs") != ["None"]:
            found, wrong = _address(spec, kept, network, partial(_free_address, network, choose, avoid))
            if wrong:
                return Allocation(findings=tuple(wrong))
            claims.extend(found)
    chosen = partial(_chosen, network, choose, avoid)
    found, wrong = _ports(spec, kept, network, chosen, creates=old is None)
    if wrong and not dry_run:
        return Allocation(findings=tuple(wrong))
    return Allocation(claims=(*claims, *found))


def _families(spec: Object, before: Object | None) -> list[FieldError]:
    ips = items(spec, "clusterIPs")
    free = text(spec, "clusterIP") == "None" and not part(spec, "selector")
    if "ipFamilyPolicy" not in spec:
        known = before.get("ipFamilyPolicy") if before else None
        spec["ipFamilyPolicy"] = known or ("RequireDualStack" if free else "SingleStack")
    wrong = list(cluster_ip_fields(spec, before))
    if wrong:
        return wrong
    families = list(items(spec, "ipFamilies"))
    wrong = _too_many(spec["ipFamilyPolicy"], ips, families)
    for index, ip in enumerate(ips):
        if ip == "None" or index < len(families):
            continue
        if is_v6(ip):
            wrong.append(
                errors.wrong(f"spec.clusterIPs[{index}]", ips, "IPv6 is not configured on this cluster")
            )
        else:
            families.append("IPv4")
    if wrong:
        return wrong
    spec["ipFamilies"] = families or ["IPv4"]
    return _without_address(spec) if free else _unknown_families(spec)


def _too_many(policy: str, ips: list[str], families: list[str]) -> list[FieldError]:
    if policy != "SingleStack":
        return []
    message = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
    return [
        errors.wrong("spec.ipFamilyPolicy", policy, message.format(what))
        for what, found in (("cluster IPs", ips), ("IP families", families))
        if len(found) == 2
    ]


def _without_address(spec: Object) -> list[FieldError]:
    if len(spec["ipFamilies"]) == 1 and spec["ipFamilyPolicy"] != "SingleStack":
        spec["ipFamilies"] = ["IPv4", "IPv6"] if spec["ipFamilies"] == ["IPv4"] else ["IPv6", "IPv4"]
    return []


def _unknown_families(spec: Object) -> list[FieldError]:
    wrong = []
    if spec["ipFamilyPolicy"] == "RequireDualStack":
        message = "this cluster is not configured for dual-stack services"
        wrong.append(errors.wrong("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], message))
    for index, family in enumerate(spec["ipFamilies"]):
        if family != "IPv4":
            wrong.append(errors.wrong(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))
    return wrong


def _address(
    spec: Object, kept: frozenset[str], network: Network, free: Callable[[], str]
) -> tuple[list[Claim], list[FieldError]]:
    ips = items(spec, "clusterIPs")
    if not ips:
        chosen = free()
        spec["clusterIP"], spec["clusterIPs"] = chosen, [chosen]
        return [Claim(f"ip/{chosen}", None)], []
    asked = ips[0]
    if f"ip/{asked}" in kept:
        return [], []
    message = f"failed to allocate IP {asked}: "
    if not any(_gives(each, asked) for each in (network.addresses, *network.further)):
        told = ", ".join((network.addresses, *network.further))
        range_told = f"the provided IP ({asked}) is not in the valid range. The range of valid IPs is {told}"
        return [], [errors.wrong("spec.clusterIPs", ips, message + range_told)]
    taken = errors.wrong("spec.clusterIPs", ips, f"{message}provided IP is already allocated")
    return [Claim(f"ip/{asked}", taken)], []


def _free_address(network: Network, choose: Choose, avoid: Collection[str]) -> str:
    """Return an address of the ranges from which addresses are chosen: one that is taken only if all are."""
    ranges = network.further or (network.addresses,)
    first, chosen = choose(len(ranges)) if len(ranges) > 1 else 0, ""
    for turn in range(len(ranges)):
        addresses = ipaddress.ip_network(ranges[(first + turn) % len(ranges)])
        size = max(addresses.num_addresses - 2, 1)
        start = choose(size)
        for step in range(min(size, len(avoid) + 1)):
            chosen = str(addresses[1 + (start + step) % size])
            if f"ip/{chosen}" not in avoid:
                return chosen
    return chosen


def _gives(cidr: str, asked: str) -> bool:
    """Return whether a Service can have an address of a range: neither its first nor its last one."""
    addresses, wanted = ipaddress.ip_network(cidr), ipaddress.ip_address(asked)
    return wanted in addresses and wanted not in (addresses.network_address, addresses.broadcast_address)


def _ports(
    spec: Object,
    kept: frozenset[str],
    network: Network,
    chosen: Callable[[Collection[str]], int],
    *,
    creates: bool,
) -> tuple[list[Claim], list[FieldError]]:
    claims: dict[str, Claim] = {}
    users: dict[int, int] = {}
    if needs_node_port(spec):
        free = text(spec, "type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False
        by_port = {
            number(each, "port"): each["nodePort"] for each in items(spec, "ports") if each.get("nodePort")
        }
        for index, each in enumerate(items(spec, "ports")):
            asked = number(each, "nodePort")
            path = f"spec.ports[{index}].nodePort"
            if not asked and free:
                continue
            if not asked:
                known = by_port.get(number(each, "port"))
                each["nodePort"] = known or chosen(claims)
                by_port[number(each, "port")] = each["nodePort"]
            wrong = _claim_port(claims, kept, network, path, each["nodePort"], asked=bool(asked))
            user = users.setdefault(each["nodePort"], number(each, "port"))
            if creates and asked and user != number(each, "port"):
                # Only entries with one port number share a node port of a new Service (`initNodePorts`).
                wrong = errors.wrong(path, each["nodePort"], _TAKEN)
            if wrong:
                return [], [wrong]
    if needs_health_check(spec):
        asked = number(spec, "healthCheckNodePort")
        if not asked:
            spec["healthCheckNodePort"] = chosen(claims)
        wrong = _claim_port(
            claims, kept, network, "spec.healthCheckNodePort", spec["healthCheckNodePort"], asked=bool(asked)
        )
        if wrong:
            return [], [wrong]
    return list(claims.values()), []


def _chosen(network: Network, choose: Choose, avoid: Collection[str], claims: Collection[str]) -> int:
    size = network.last_port - network.first_port + 1
    start = choose(size)
    for step in range(size):
        port = network.first_port + (start + step) % size
        if f"port/{port}" not in claims and f"port/{port}" not in avoid:
            return port
    return network.first_port + start


def _claim_port(
    claims: dict[str, Claim], kept: frozenset[str], network: Network, path: str, port: int, *, asked: bool
) -> FieldError | None:
    key = f"port/{port}"
    if key in kept or key in claims:
        return None
    if not network.first_port <= port <= network.last_port:
        valid = f"{network.first_port}-{network.last_port}"
        message = f"provided port is not in the valid range. The range of valid ports is {valid}"
        return errors.wrong(path, port, message)
    claims[key] = Claim(key, errors.wrong(path, port, _TAKEN) if asked else None)
    return None
