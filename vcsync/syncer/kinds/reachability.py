"""The condition of a tenant's Service that says whether its Pods are reached from every super cluster. Pure.

The first super cluster in order of those with slices of the namespace that are not lost writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct, to_builtins

from vcsync.api import names
from vcsync.kube.resources import SERVICES
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.times import time_text
from vcsync.syncer.kinds.plan import Patch, Placement, TenantContext, View

SAME_NETWORK: Final = "SameNetwork"
"""Reason: all super clusters with slices of the namespace route Pod addresses to each other."""
SEPARATE_NETWORKS: Final = "SeparateNetworks"
"""Reason: they do not. If some of them are lost, the reason is `names.SUPER_CLUSTER_LOST`."""


class _Condition(Struct, rename="camel", omit_defaults=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class _Status(Struct):
    conditions: list[_Condition] | None = None


def groups_of(super_ids: Iterable[str], networks: Mapping[str, str]) -> list[list[str]]:
    """Return the super clusters in groups that reach the Pods of each other, each in order.

    Args:
        super_ids: the super clusters.
        networks: id of a super cluster -> its network. Those that it lacks, and those with "", are in none.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for super_id in sorted(super_ids):
        network = networks.get(super_id, "")
        groups.setdefault((network, "") if network else ("", super_id), []).append(super_id)
    return sorted(groups.values())


def patch(
    v: Envelope, placement: Placement, context: TenantContext, view: View, *, selects: bool
) -> tuple[Patch, ...]:
    """Return the patch of the condition; nothing if it is as it should be, or another super cluster writes it.

    A Service that selects no Pods, or whose namespace has slices on one super cluster only, has no such condition.

    Args:
        v: the tenant's Service.
        placement: the ledger's entry of its namespace.
        context: the tenant's settings.
        view: the caches.
        selects: whether the Service selects Pods.
    """
    placed = sorted(placement.placements)
    alive = [each for each in placed if each not in context.lost]
    if not alive or alive[0] != context.super_id:
        return ()
    found = next(
        (each for each in _conditions(v) if each.type == names.REACHABLE_FROM_ALL),
        None,
    )
    groups, lost = groups_of(alive, context.networks), [each for each in placed if each in context.lost]
    wanted = _wanted(groups, lost) if selects and len(placed) > 1 else None
    if wanted is None:
        change: dict[str, Any] = {"$patch": "delete", "type": names.REACHABLE_FROM_ALL}
        return (_of(v, change),) if found is not None else ()
    if found is not None and found.status == wanted.status:
        wanted.last_transition_time = found.last_transition_time
    if found == wanted and found.last_transition_time:
        return ()
    if not wanted.last_transition_time:
        wanted.last_transition_time = time_text(datetime.fromtimestamp(view.turn(1.0), UTC))
    return (_of(v, to_builtins(wanted)),)


def _conditions(v: Envelope) -> list[_Condition]:
    return decode(v.status, _Status).conditions or []


def _wanted(groups: list[list[str]], lost: list[str]) -> _Condition:
    """Return the condition.

    Args:
        groups: the super clusters that are not lost, in groups that reach the Pods of each other.
        lost: those that are lost.
    """
    if lost:
        return _Condition(
            names.REACHABLE_FROM_ALL,
            "False",
            names.SUPER_CLUSTER_LOST,
            f"Super clusters that are lost: {', '.join(lost)}. Until they return, the Service reaches none of the Pods there"
            + (
                f"; the others do not reach the Pods of each other ({_apart(groups)})"
                if len(groups) > 1
                else ""
            ),
        )
    if len(groups) == 1:
        return _Condition(
            names.REACHABLE_FROM_ALL,
            "True",
            SAME_NETWORK,
            f"Super clusters {', '.join(groups[0])} reach the Pods of each other",
        )
    return _Condition(
        names.REACHABLE_FROM_ALL,
        "False",
        SEPARATE_NETWORKS,
        f"The namespace has slices on super clusters whose Pods do not reach each other ({_apart(groups)}): in each group the "
        "Service reaches only the Pods that run there",
    )


def _apart(groups: list[list[str]]) -> str:
    return "; ".join(", ".join(each) for each in groups)


def _of(v: Envelope, condition: dict[str, Any]) -> Patch:
    body = {"metadata": {"uid": v.uid}, "status": {"conditions": [condition]}}
    return Patch("tenant", SERVICES, v.namespace, v.name, v.uid, body, "strategic", "status")
