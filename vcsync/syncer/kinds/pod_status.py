"""Copies a Pod's status up to the tenant, and conditions of readiness gates down to the super cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vcsync.api import names
from vcsync.objects.envelope import Envelope, untyped
from vcsync.syncer.kinds import pod_ephemeral
from vcsync.syncer.kinds.plan import TenantContext

Json = dict[str, Any]

POD_SCHEDULED: Final = "PodScheduled"

_IMMUTABLE: Final = "qosClass"
"""A field that each API server sets at the creation of the Pod, and that cannot change."""
_TIMES_AND_GENERATION: Final = ("lastTransitionTime", "lastProbeTime", "observedGeneration")
_OF_DEVICES: Final = (
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
)
"""Fields about ResourceClaims by their names: the tenant's own controller writes the first one, of the tenant's claims."""
_SPECIAL: Final = frozenset(
    {_IMMUTABLE, "conditions", "observedGeneration", "nominatedNodeName", *_OF_DEVICES}
)


def is_reported(p: Envelope) -> bool:
    """Return whether the kubelet has written p's status: each of its reports has `startTime`, and nobody else writes it."""
    return b'"startTime"' in p.status


def status_up(
    v: Envelope,
    p: Envelope,
    gates: frozenset[str],
    context: TenantContext,
    *,
    spec_settled: bool,
    binding: bool,
    refused: tuple[Json, ...] = (),
) -> Json | None:
    """Return the merge patch of the tenant Pod's `status`, with the top-level fields that differ; None if none does.

    Args:
        v: the tenant's Pod.
        p: the super cluster's Pod.
        gates: condition types of the tenant Pod's readiness gates, which only the tenant sets.
        context: the tenant's settings.
        spec_settled: whether p's spec is up to date. Only then is the generation that the kubelet observed v's present
            generation.
        binding: whether a Binding precedes this patch. It sets PodScheduled to true.
        refused: statuses of ephemeral containers that the policy refuses.
    """
    if v.status == p.status and v.generation == p.generation and not refused:
        return None
    if context.out_of_touch and names.SUPER_CLUSTER_LOST.encode() in v.status:
        return None  # the cached p may be old; the Pod scheduler says so until the super cluster is heard from again
    have: Json = untyped(v.status)
    want: Json = untyped(p.status)
    if p.namespace.encode() in p.status:
        _rename_namespace(want, p.namespace, v.namespace)
    if statuses := pod_ephemeral.with_refused(have, want, refused):
        want[pod_ephemeral.STATUSES] = statuses
    patch = {
        field: want.get(field)
        for field in have | want
        if field not in _SPECIAL and have.get(field) != want.get(field)
    }
    observes = spec_settled and _generation(want) >= p.generation
    _observed_generation(have, want, patch, v.generation if observes else None)
    _nominated_node(have, want, patch, context)
    _conditions(
        have,
        want,
        patch,
        gates=gates,
        p_generation=p.generation,
        v_generation=v.generation if spec_settled else None,
        binding=binding,
    )
    return patch or None


def _rename_namespace(value: Any, super_namespace: str, namespace: str) -> None:
    """Replace the super namespace by the tenant's namespace in all messages of a status, in place."""
    if isinstance(value, dict):
        message = value.get("message")
        if isinstance(message, str):
            value["message"] = message.replace(super_namespace, namespace)
        for child in value.values():
            _rename_namespace(child, super_namespace, namespace)
    elif isinstance(value, list):
        for child in value:
            _rename_namespace(child, super_namespace, namespace)


def _generation(holder: Mapping[str, Any]) -> int:
    value = holder.get("observedGeneration")
    return value if isinstance(value, int) else 0


def _observed_generation(have: Json, want: Json, patch: Json, observed: int | None) -> None:
    """Translate KEP-5067's observedGeneration, since the generations of both objects are independent.

    Until the kubelet has observed p's latest generation, v's earlier value remains.
    """
    if "observedGeneration" in want and observed and have.get("observedGeneration") != observed:
        patch["observedGeneration"] = observed


def _nominated_node(have: Json, want: Json, patch: Json, context: TenantContext) -> None:
    node = want.get("nominatedNodeName")
    virtual = names.virtual_node_name(node, context.super_id) if node else None
    if (have.get("nominatedNodeName") or None) != virtual:
        patch["nominatedNodeName"] = virtual


def _conditions(
    have: Json,
    want: Json,
    patch: Json,
    *,
    gates: frozenset[str],
    p_generation: int,
    v_generation: int | None,
    binding: bool,
) -> None:
    mine: list[Json] = have.get("conditions") or []
    theirs: list[Json] = want.get("conditions") or []
    by_type = {condition.get("type"): condition for condition in mine}
    wanted = [
        _translated(condition, by_type.get(condition.get("type")), p_generation, v_generation)
        for condition in theirs
        if condition.get("type") not in gates
    ]
    wanted.extend(condition for condition in mine if condition.get("type") in gates)
    if binding:
        mine = _after_binding(mine)
    if mine != wanted and _comparable(mine) != _comparable(wanted):
        patch["conditions"] = wanted or None


def _translated(condition: Json, before: Json | None, p_generation: int, v_generation: int | None) -> Json:
    """Return a condition with the tenant's observedGeneration, or without one if it is not known."""
    if "observedGeneration" not in condition:
        return condition
    translated = dict(condition)
    observed: int | None = None
    if v_generation and _generation(condition) >= p_generation:
        observed = v_generation
    elif before is not None:
        observed = before.get("observedGeneration")
    if observed is None:
        del translated["observedGeneration"]
    else:
        translated["observedGeneration"] = observed
    return translated


def _after_binding(conditions: list[Json]) -> list[Json]:
    others = [condition for condition in conditions if condition.get("type") != POD_SCHEDULED]
    return [*others, {"type": POD_SCHEDULED, "status": "True"}]


def _comparable(conditions: list[Json]) -> dict[Any, Json]:
    """Return the parts of conditions whose difference needs a write, by type.

    The tenant's API server sets PodScheduled itself when the Pod is bound, so its time and generation differ from those of
    the super cluster and are ignored.
    """
    comparable = {}
    for condition in conditions:
        kind = condition.get("type")
        ignored = _TIMES_AND_GENERATION if kind == POD_SCHEDULED else ()
        comparable[kind] = {
            field: value
            for field, value in condition.items()
            if field not in ignored and value is not None and value != ""  # the same as absent
        }
    return comparable


# --- Downward --------------------------------------------------------------------------------------------


def gates_down(v: Envelope, p: Envelope, gates: frozenset[str]) -> list[Json]:
    """Return the readiness gate conditions of v that differ on p, to be written to p's status."""
    if not gates:
        return []
    theirs = {condition.get("type"): condition for condition in untyped(p.status).get("conditions") or ()}
    missing = []
    for condition in untyped(v.status).get("conditions") or ():
        kind = condition.get("type")
        if kind in gates and not _equal(condition, theirs.get(kind)):
            missing.append(
                {field: value for field, value in condition.items() if field != "observedGeneration"}
            )
    return missing


def _equal(one: Json, other: Json | None) -> bool:
    return other is not None and all(
        (one.get(field) or "") == (other.get(field) or "") for field in ("status", "reason", "message")
    )
