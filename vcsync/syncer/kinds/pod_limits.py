"""Limits of containers in a super cluster: none may use more CPU and memory than its namespace's slices there. Pure.

A container without limits may use its whole node otherwise, whatever its namespace's quota. A limit of the slices does not
depend on the other containers, so that ordinary Pods notice nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from vcsync.objects.quantity import InvalidQuantity, canonical, milli
from vcsync.syncer.kinds.plan import Placement, TenantContext

Json = dict[str, Any]

BY_SLICES: Final = "Slices"
LEAST: Final[Mapping[str, str]] = {"cpu": "2", "memory": "4Gi"}
"""The smallest bounds: those of one default slice. Small slices may belong to Pods with larger limits."""


def bounds(context: TenantContext, placement: Placement | None) -> dict[str, int]:
    """Return the largest limits of a container, by resource, in thousandths; empty for no bounds.

    Args:
        context: the tenant's settings.
        placement: the slices of the Pod's namespace.
    """
    if context.policy.limits != BY_SLICES or placement is None:
        return {}
    return {name: max(_amount(LEAST, name), _amount(placement.hard, f"requests.{name}")) for name in LEAST}


def with_limits(resources: Mapping[str, Any], most: Mapping[str, int], without: Collection[str] = ()) -> Json:
    """Return resources of a container or a Pod with limits of at most `most`, and at least their own requests.

    Args:
        resources: the resources that the tenant wants.
        most: the largest limits, in thousandths.
        without: resources that get no limit if they have none.
    """
    limits: Mapping[str, str] = resources.get("limits") or {}
    requests: Mapping[str, str] = resources.get("requests") or {}
    bounded = {}
    for name, bound in most.items():
        largest = max(bound, _amount(requests, name))
        # A limit of zero is none for the kubelet.
        if not 0 < _amount(limits, name) <= largest if name in limits else name not in without:
            bounded[name] = canonical(largest, LEAST[name])
    return {**resources, "limits": {**limits, **bounded}} if bounded else dict(resources)


def changed(wanted: Mapping[str, Any], actual: Mapping[str, Any], most: Mapping[str, int]) -> dict[str, str]:
    """Return the limits to change in a running container, so that they are the tenant's or at the bounds.

    A limit at or above its bound stays while the tenant wants none or a larger one: bounds follow the slices, and Pods are not
    resized whenever slices come and go. A container that has run without limit stays so, too.

    Args:
        wanted: the resources that the tenant wants.
        actual: the resources that the container has.
        most: the largest limits, in thousandths.
    """
    limits: Mapping[str, str] = wanted.get("limits") or {}
    has: Mapping[str, str] = actual.get("limits") or {}
    change = {}
    for name, amount in (with_limits(wanted, most).get("limits") or {}).items():
        own, least = limits.get(name), _amount(wanted.get("requests") or {}, name)
        if own is None:
            differs = name in has and _amount(has, name) < least
        elif own != amount:
            differs = _amount(has, name) < _amount({name: amount}, name)
        else:
            differs = name not in has or _amount(has, name) != _amount(limits, name)
        if differs:
            change[name] = amount
    return change


def _amount(amounts: Mapping[str, str], name: str) -> int:
    """Return an amount in thousandths; 0 if it is missing or, which the super cluster's API server refuses, invalid."""
    try:
        return milli(amounts.get(name, "0"))
    except InvalidQuantity:
        return 0
