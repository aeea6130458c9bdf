"""Explains which super clusters have endpoints of a Service, and which of them each reaches. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, to_builtins

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement, SuperCluster
from vcsync.cli.command.output import table
from vcsync.objects.envelope import Envelope, decode
from vcsync.scheduling.snapshot import Health
from vcsync.syncer.kinds.reachability import groups_of
from vcsync.syncer.kinds.service import EXTERNAL_NAME
from vcsync.tenancy.health import judge_all_stored

_HEADER = ("SUPER CLUSTER", "NETWORK", "HEALTH", "SLICES", "ENDPOINTS", "READY", "SHARED", "REACHES")


class _Spec(Struct):
    selector: dict[str, str] | None = None
    type: str = ""


class _Conditions(Struct):
    ready: bool | None = None


class _Endpoint(Struct, rename="camel"):
    node_name: str | None = None
    conditions: _Conditions | None = None


class _Content(Struct):
    endpoints: list[_Endpoint] | None = None


class Reach(Struct, frozen=True, rename="camel"):
    """The endpoints of a Service in one super cluster, and the super clusters that it reaches."""

    super_cluster: str
    network: str
    """Its network id; "" if it shares its Pod network with none."""
    health: str
    slices: int
    """Slices of the Service's namespace; 0 while it drains."""
    endpoints: int
    """Endpoints on its nodes, as the tenant's control plane lists them."""
    ready: int
    """Those that are ready."""
    shared: int
    """Endpoints that its syncer shares with other super clusters."""
    reaches: tuple[str, ...]
    """The super clusters whose Pods the Service reaches from there."""


def selects_pods(service: Envelope) -> bool:
    """Return whether a Service leads to Pods that it selects."""
    spec = decode(service.spec, _Spec)
    return bool(spec.selector) and spec.type != EXTERNAL_NAME


def reaches(
    placement: NamespacePlacement | None,
    supers: Mapping[str, SuperCluster],
    theirs: Iterable[Envelope],
    shared: Iterable[Envelope],
    now: datetime,
) -> list[Reach]:
    """Return a line for each super cluster that has slices of the namespace or endpoints of the Service, in order.

    Args:
        placement: The namespace's entry in the ledger.
        supers: The super clusters by id.
        theirs: The Service's EndpointSlices in the tenant.
        shared: The shared ones in the meta cluster.
        now: The current time, for the age of heartbeats.
    """
    placed = placement.status.placements if placement is not None else {}
    there, ready = _counted(theirs)
    given: Counter[str] = Counter()
    for each in shared:
        given[each.labels.get(names.SUPER_CLUSTER_ID, "")] += len(_endpoints(each))
    ids = {*placed, *there, *given} & {*placed, *supers}
    judged = judge_all_stored(supers.values(), now)
    health = {each: judged[each] for each in ids if each in supers}
    networks = {each: supers[each].spec.network_id for each in health}
    groups = {each: group for group in groups_of(ids, networks) for each in group}
    alive = {each for each, found in health.items() if found.health is not Health.LOST}
    return [
        Reach(
            super_cluster=each,
            network=networks.get(each, ""),
            health=health[each].word if each in health else "Removed",
            slices=placed.get(each, 0),
            endpoints=there[each],
            ready=ready[each],
            shared=given[each],
            reaches=tuple(other for other in groups[each] if other == each or other in alive),
        )
        for each in sorted(ids)
    ]


def _counted(slices: Iterable[Envelope]) -> tuple[Counter[str], Counter[str]]:
    """Count the endpoints by super cluster: all, and those that are ready."""
    every: Counter[str] = Counter()
    ready: Counter[str] = Counter()
    for each in slices:
        for endpoint in _endpoints(each):
            super_id = names.super_cluster_of_node(endpoint.node_name or "")
            every[super_id] += 1
            ready[super_id] += endpoint.conditions is None or endpoint.conditions.ready is not False
    return every, ready


def _endpoints(slice_: Envelope) -> list[_Endpoint]:
    return decode(slice_.rest, _Content).endpoints or []


def service_story(name: str, service: Envelope, found: list[Reach]) -> list[str]:
    """Explain where a Service has endpoints, and who reaches whom.

    Args:
        name: The name that the user gave.
        service: The tenant's Service.
        found: The lines of `reaches`.
    """
    if not selects_pods(service):
        return [
            f"Service {name} selects no Pods: it leads to the same addresses in every super cluster, and nothing is shared."
        ]
    if not found:
        return [f"Service {name} is on no super cluster: its namespace has no slices."]
    rows = [
        (
            each.super_cluster,
            each.network,
            each.health,
            *(str(number) for number in (each.slices, each.endpoints, each.ready, each.shared)),
            ", ".join(each.reaches),
        )
        for each in found
    ]
    return [*table(_HEADER, rows).splitlines(), *_kept(name, service), *_remarks(name, found)]


def _kept(name: str, service: Envelope) -> list[str]:
    if service.labels.get(names.KEEP_TOGETHER) != names.TRUE:
        return []
    return [
        f"New Pods of Service {name} go only where they reach most of its Pods (label {names.KEEP_TOGETHER})."
    ]


def _remarks(name: str, found: list[Reach]) -> list[str]:
    everyone = {each.super_cluster for each in found}
    apart = [each.super_cluster for each in found if {*each.reaches} != everyone]
    if not apart:
        return [f"Service {name} reaches all its Pods from every super cluster."]
    return [
        f"From {', '.join(apart)} Service {name} does not reach all its Pods.",
        "Super clusters reach the Pods of each other if they have the same network id (vcsync super set) and are not lost.",
    ]


def facts(found: list[Reach]) -> list[dict[str, Any]]:
    """Return the lines as plain values for JSON and YAML."""
    return [to_builtins(each) for each in found]
