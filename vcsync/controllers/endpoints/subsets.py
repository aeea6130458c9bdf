"""Subsets of Endpoints in canonical form: addresses with the same ports share a subset. Pure.

Behaviour: Kubernetes' `pkg/api/v1/endpoints`. Upstream orders by hashes of Go's memory. The order has no meaning, so
this module sorts by addresses and ports.
"""

import math
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec.json import encode

CAPACITY = 1000
"""Maximum number of addresses in one Endpoints object."""

Subset = dict[str, Any]
MOST_PAIRS = 100_000
"""Most pairs of an address and a port of subsets that overlap: a thousand addresses with a hundred ports."""
_PLACES = (("addresses", True), ("notReadyAddresses", False))


_Addresses = dict[tuple[str, str], bool]
"""Whether an address, by IP and UID of its Pod, is ready."""


def repack(subsets: Iterable[Mapping[str, Any]]) -> list[Subset]:
    """Return subsets in canonical form; an address that is both ready and not ready at a port is not ready.

    Subsets that overlap, and have more than `MOST_PAIRS` pairs of an address and a port together, are only merged where their
    ports are the same: tenants may write any numbers of both into one object.
    """
    known: dict[tuple[str, str], dict[str, Any]] = {}
    ports: dict[bytes, dict[str, Any] | None] = {}
    merged: dict[frozenset[bytes], _Addresses] = {}
    for subset in subsets:
        names = set()
        for port in subset.get("ports") or [None]:
            normal = None if port is None else normal_port(port)
            name = encode(normal, order="sorted")
            ports[name] = normal
            names.add(name)
        there = merged.setdefault(frozenset(names), {})
        for place, ready in _PLACES:
            for address in subset.get(place) or ():
                key = address["ip"], (address.get("targetRef") or {}).get("uid", "")
                if key not in known:
                    known[key] = _canonical_address(address)
                there[key] = ready and there.get(key, True)
    together: list[tuple[AbstractSet[bytes], AbstractSet[tuple[tuple[str, str], bool]]]]
    together = [(names, there.items()) for names, there in merged.items()]
    pairs = sum(len(names) * len(there) for names, there in merged.items())
    if pairs <= MOST_PAIRS and not _are_apart(merged):
        together = [(names, addresses) for addresses, names in _by_addresses(merged).items()]
    packed = [
        _subset(known, addresses, [ports[name] for name in sorted(names)]) for names, addresses in together
    ]
    return sorted(packed, key=lambda each: encode(each, order="sorted"))


def _are_apart(merged: Mapping[frozenset[bytes], _Addresses]) -> bool:
    """Return whether no two subsets have a port or an address in common."""
    names = sum(map(len, merged)), len({each for names in merged for each in names})
    addresses = sum(map(len, merged.values())), len({each for there in merged.values() for each in there})
    return names[0] == names[1] and addresses[0] == addresses[1] and list(merged.values()).count({}) < 2


def _by_addresses(
    merged: Mapping[frozenset[bytes], _Addresses],
) -> dict[AbstractSet[tuple[tuple[str, str], bool]], set[bytes]]:
    """Return the ports that have the same addresses."""
    at: dict[bytes, _Addresses] = {}
    for names, addresses in merged.items():
        for name in names:
            there = at.setdefault(name, {})
            for key, ready in addresses.items():
                there[key] = ready and there.get(key, True)
    found: dict[AbstractSet[tuple[tuple[str, str], bool]], set[bytes]] = {}
    for name, addresses in at.items():
        found.setdefault(frozenset(addresses.items()), set()).add(name)
    return found


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
