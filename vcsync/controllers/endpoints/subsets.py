"""Subsets of Endpoints in canonical form: addresses with the same ports share a subset. Pure.

Behaviour: Kubernetes' `pkg/api/v1/endpoints`. Upstream orders by hashes of Go's memory. The order has no meaning, so
this module sorts by addresses and ports.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.json import encode

CAPACITY = 1000
"""Maximum number of addresses in one Endpoints object."""

Subset = dict[str, Any]
_PLACES = (("addresses", True), ("notReadyAddresses", False))


def repack(subsets: Iterable[Mapping[str, Any]]) -> list[Subset]:
    """Return subsets in canonical form; an address that is both ready and not ready at a port is not ready."""
    known: dict[tuple[str, str], dict[str, Any]] = {}
    at: dict[bytes, dict[tuple[str, str], bool]] = {}
    ports: dict[bytes, dict[str, Any] | None] = {}
    for subset in subsets:
        for port in subset.get("ports") or [None]:
            normal = None if port is None else normal_port(port)
            name = encode(normal, order="sorted")
            ports[name] = normal
            there = at.setdefault(name, {})
            for place, ready in _PLACES:
                for address in subset.get(place) or ():
                    key = address["ip"], (address.get("targetRef") or {}).get("uid", "")
                    known.setdefault(key, _canonical_address(address))
                    there[key] = ready and there.get(key, True)
    together: dict[frozenset[tuple[tuple[str, str], bool]], list[bytes]] = {}
    for name, addresses in at.items():
        together.setdefault(frozenset(addresses.items()), []).append(name)
    packed = [
        _subset(known, addresses, [ports[name] for name in sorted(names)])
        for addresses, names in together.items()
    ]
    return sorted(packed, key=lambda each: encode(each, order="sorted"))


def _subset(
    known: Mapping[tuple[str, str], dict[str, Any]],
    addresses: Iterable[tuple[tuple[str, str], bool]],
    ports: Iterable[dict[str, Any] | None],
) -> Subset:
    ordered = sorted(addresses)
    parts = {place: [known[key] for key, ready in ordered if ready is wanted] for place, wanted in _PLACES}
    parts["ports"] = [port for port in ports if port is not None]
    return {name: part for name, part in parts.items() if part}


def normal_port(port: Mapping[str, Any]) -> dict[str, Any]:
    """Return a port with the API's defaults, without empty fields."""
    normal = {"protocol": "TCP", **port}
    return {name: value for name, value in normal.items() if value}


def _canonical_address(address: Mapping[str, Any]) -> dict[str, Any]:
    normal = {name: value for name, value in address.items() if value}
    if "targetRef" in normal:
        target = normal["targetRef"].items()
        normal["targetRef"] = {name: value for name, value in target if name != "resourceVersion"}
    return normal


def truncate(subsets: list[Subset]) -> tuple[list[Subset], bool]:
    """Return the part of subsets that fits into one object, ready addresses first, and whether addresses are missing."""
    totals = {place: sum(len(each.get(place, ())) for each in subsets) for place, _ in _PLACES}
    if sum(totals.values()) <= CAPACITY:
        return subsets, False
    only_ready = totals["addresses"] > CAPACITY
    place = "addresses" if only_ready else "notReadyAddresses"
    room = left = CAPACITY if only_ready else CAPACITY - totals["addresses"]
    kept = []
    for subset in subsets:
        share = math.ceil(len(subset.get(place, ())) / totals[place] * room)
        fitting = subset.get(place, [])[: min(share, left)]
        left -= len(fitting)
        whole = {**subset, place: fitting, **({"notReadyAddresses": []} if only_ready else {})}
        kept.append({name: part for name, part in whole.items() if part})
    return kept, True
