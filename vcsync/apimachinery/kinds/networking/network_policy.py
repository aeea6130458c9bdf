"""The kind NetworkPolicy: defaults, validation, warnings and columns. Pure.

Source: Kubernetes' `pkg/apis/networking/validation`,
`pkg/registry/networking/networkpolicy` and `pkg/printers/internalversion`.
"""

import ipaddress

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.address_warnings import cidr_warnings
from vcsync.apimachinery.kinds.common.addresses import cidr, range_of
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    indexed,
    items,
    one_of,
    part,
    port,
    say,
    selector,
    text,
)
from vcsync.apimachinery.wire import cells


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


KIND = Kind(
    group="networking.k8s.io",
    kind="NetworkPolicy",
    plural="networkpolicies",
    generation=("spec",),
    default=_policy_default,
    validate=lambda found: list(_policy(found)),
    validate_update=_policy_update,
    warnings=_policy_warnings,
    columns={
        "Name": cells.name,
        "Pod-Selector": cells.selector_at("spec.podSelector"),
        "Age": cells.age,
    },
)
