"""Labels and taints of nodes that the operator of a super cluster chooses to show on virtual nodes. Pure."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import Struct

from vcsync.api import names
from vcsync.api.specs import ShownNodes
from vcsync.objects.envelope import Envelope

MOST_LABELS: Final = 64
"""Largest number of labels of one node that are shown."""
_TAINT_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})
_ANY_KEY: Final = "/*"

Json = dict[str, Any]


class Stated(Struct, frozen=True):
    """Keys of the labels and taints on a virtual node that come from its node."""

    labels: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()


def labels(node: Envelope, shown: ShownNodes | None) -> dict[str, str]:
    """Return the labels of a node to show. Those of vcsync's own domains never are: they have a meaning in the tenant."""
    if shown is None or not shown.labels:
        return {}
    chosen = (
        (key, value)
        for key, value in sorted(node.labels.items())
        if _is_chosen(key, shown) and not _is_ours(key)
    )
    return dict(islice(chosen, MOST_LABELS))


def _is_chosen(key: str, shown: ShownNodes) -> bool:
    domain, slash, _ = key.partition("/")
    return key in shown.labels or (bool(slash) and f"{domain}{_ANY_KEY}" in shown.labels)


def _is_ours(key: str) -> bool:
    domain = key.partition("/")[0]
    return any(domain == each or domain.endswith(f".{each}") for each in names.OWN_DOMAINS)


def taints(found: list[Json], shown: ShownNodes | None) -> list[Json]:
    """Return the taints of a node to show, from all of its taints."""
    keys = shown.taints if shown is not None else ()
    return [each for each in found if each.get("key") in keys and each.get("effect") in _TAINT_EFFECTS]


def stated(virtual_node: Envelope) -> Stated:
    """Return what a virtual node says that it shows. A tenant may write it, and changes only its own view of the node by that."""
    try:
        return msgspec.json.decode(virtual_node.annotations.get(names.SHOWN, "{}"), type=Stated)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return Stated()


def annotation(shown_labels: dict[str, str], shown_taints: list[Json]) -> str:
    """Return the value of the annotation for labels and taints that are shown; "" if there are none."""
    if not shown_labels and not shown_taints:
        return ""
    found = Stated(
        tuple(sorted(shown_labels)), tuple(sorted({str(each.get("key", "")) for each in shown_taints}))
    )
    return msgspec.json.encode(found).decode()
