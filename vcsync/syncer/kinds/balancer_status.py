"""Addresses of load balancers, which each super cluster contributes to the status of one object of the tenant. Pure.

Each syncer writes its own contribution as an annotation and the union of all as the status, so the order of the writes does
not matter. An object that may have no addresses has no contributions either: a syncer does not wait for another one to take its
own away, since the tenant's API server refuses a status that has any.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

import msgspec
from msgspec import Struct

from vcsync.api import names
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope
from vcsync.syncer.kinds import metadata
from vcsync.syncer.kinds.plan import Patch, Placement, TenantContext


class _AddressPort(Struct, omit_defaults=True):
    port: int
    protocol: str = ""
    error: str | None = None


class Address(Struct, omit_defaults=True, rename={"ip_mode": "ipMode"}):
    """One load balancer address. The type drops fields that a tenant wrote by hand and the API does not have."""

    ip: str = ""
    hostname: str = ""
    ip_mode: str | None = None
    ports: list[_AddressPort] = []


class _LoadBalancer(Struct, frozen=True):
    ingress: list[Address] = []


class _Status(Struct, rename="camel"):
    load_balancer: _LoadBalancer = _LoadBalancer()


def status_patch(
    resource: Resource,
    v: Envelope,
    p: Envelope,
    context: TenantContext,
    placement: Placement,
    *,
    own: list[Address] | None,
    annotations: dict[str, str | None],
) -> tuple[Patch, ...]:
    """Return the patch of the tenant's object: the union of all addresses, and this super cluster's annotations.

    Args:
        resource: the resource of both objects.
        v: the tenant's object.
        p: the super cluster's object.
        context: the tenant's settings.
        placement: the super clusters that have slices of the namespace, with this one.
        own: the addresses of this super cluster; None if the object may have no addresses at all.
        annotations: further annotations of the tenant's object that change.

    Returns:
        Nothing if the tenant's object is as it should be.
    """
    placed = sorted(placement.placements)
    changes = metadata.upward_metadata(v, p, context)
    changed: dict[str, str | None] = changes.get("annotations", {}) | annotations
    if own is None:
        changed |= no_annotations(v, names.INGRESS_PREFIX)
        union: list[Address] = []
    else:
        wanted = msgspec.json.encode(own).decode() if own and len(placed) > 1 else None
        changed |= own_annotation(v, names.INGRESS_PREFIX, wanted, placed, context)
        union = _union(v, own, placed, context.super_id)
    body = {"metadata": {**changes, "uid": v.uid}}
    if changed:
        body["metadata"]["annotations"] = changed
    if addresses(v.status) != union:
        body["status"] = {"loadBalancer": {"ingress": msgspec.to_builtins(union)} if union else None}
    if len(body["metadata"]) == 1 and "status" not in body:
        return ()
    return (Patch("tenant", resource, v.namespace, v.name, v.uid, body, subresource="status"),)


def own_annotation(
    v: Envelope, prefix: str, wanted: str | None, placed: list[str], context: TenantContext
) -> dict[str, str | None]:
    """Return the change of this super cluster's annotation under a prefix that has one for each super cluster.

    The first super cluster in order that is not lost also removes the annotations of former ones.

    Args:
        v: The tenant's object.
        prefix: The prefix, which a super cluster id follows.
        wanted: The value of this super cluster; None: it has no annotation.
        placed: The ids of the super clusters that have slices of the namespace, in order.
        context: The tenant's settings, with the id of this super cluster.
    """
    super_id, changes = context.super_id, dict[str, str | None]()
    if v.annotations.get(prefix + super_id) != wanted:
        changes[prefix + super_id] = wanted
    if next((each for each in placed if each not in context.lost), "") == super_id:
        for annotation in v.annotations:
            if annotation.startswith(prefix) and annotation.removeprefix(prefix) not in placed:
                changes[annotation] = None
    return changes


def no_annotations(v: Envelope, prefix: str) -> dict[str, str | None]:
    """Return the change that removes the annotations of all super clusters under a prefix, since the object may have none."""
    return {annotation: None for annotation in v.annotations if annotation.startswith(prefix)}


def addresses(status: bytes) -> list[Address]:
    """Return the addresses in a status."""
    return _lenient(lambda: msgspec.json.decode(status, type=_Status).load_balancer.ingress) if status else []


def _union(v: Envelope, own: list[Address], placed: list[str], super_id: str) -> list[Address]:
    union: list[Address] = []
    for other in placed:
        for entry in own if other == super_id else _contributed(v, other):
            if entry not in union:
                union.append(entry)
    return union


def _contributed(v: Envelope, super_id: str) -> list[Address]:
    text = v.annotations.get(names.INGRESS_PREFIX + super_id)
    if text is None:
        return []
    return [
        each for each in _lenient(lambda: msgspec.json.decode(text, type=list[Address])) if _is_valid(each)
    ]


def _is_valid(address: Address) -> bool:
    """Return whether an API server accepts an address. A tenant may have written it, and one more is refused with it."""
    if not address.ip:
        return bool(address.hostname) and address.ip_mode is None
    try:
        return bool(ipaddress.ip_address(address.ip)) and address.ip_mode in (None, "VIP", "Proxy")
    except ValueError:
        return False


def _lenient(decode: Callable[[], list[Address]]) -> list[Address]:
    """Decode a list of addresses. Invalid text counts as empty, since a tenant may write anything into annotations."""
    try:
        return decode()
    except (msgspec.DecodeError, RecursionError):
        return []
