"""Explains one super cluster of a snapshot: its slices by tenant, and what it would take for new ones. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from vcsync.scheduling.place import SliceRequest, place_slices
from vcsync.scheduling.pool_pods import pods_of_pool
from vcsync.scheduling.resources import Resources, add, from_quantities, pieces, times, to_quantities
from vcsync.scheduling.slices import DIMENSIONS, PODS, slice_pods
from vcsync.scheduling.snapshot import SuperView
from vcsync.whatif.snapshot import Amounts, InvalidSnapshot, Snapshot, SuperState, view_of

HEADROOM = "Headroom"
"""Name of the refusal by a headroom that cannot be read."""

REMEDIES = {
    "Health": "it has to report again and to have ready nodes",
    "Cordon": "vcsync super uncordon {id}",
    "Drain": "vcsync super undrain {id}",
    "Taint": "remove the taint from the SuperCluster, or pin slices to {id}",
    "LargestNode": "add larger nodes, or use smaller slices",
    "Capacity": "add nodes, reduce the headroom, or move slices away",
    HEADROOM: "correct the headroom of the SuperCluster",
}
"""Name of a filter -> what it would take, for operators."""


class _Part(Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of the explanation."""


class TenantShare(_Part, frozen=True, kw_only=True):
    """The slices of a tenant.

    Attributes:
        tenant: name of the tenant.
        namespaces: number of its namespaces with slices there.
        slices: number of slices.
        amounts: their amounts.
        clearing: amounts that are still being cleared.
    """

    tenant: str
    namespaces: int
    slices: int
    amounts: Amounts
    clearing: Amounts


class Obstacle(_Part, frozen=True, kw_only=True):
    """A filter that refuses new slices.

    Attributes:
        filter: name of the filter.
        message: the reason, with the numbers that were compared.
        remedy: what it would take.
    """

    filter: str
    message: str
    remedy: str


class NewSlices(_Part, frozen=True, kw_only=True):
    """Room for new slices.

    Attributes:
        size: amounts of one.
        fit: number of slices that it would get at most.
        obstacles: why it gets none; empty if it gets some.
    """

    size: Amounts
    fit: int
    obstacles: tuple[Obstacle, ...]


class SuperExplanation(_Part, frozen=True, kw_only=True):
    """The explanation.

    Attributes:
        settings: settings and amounts as in a snapshot.
        capacity: amounts that are distributed as slices; empty if its headroom cannot be read.
        placed: amounts that slices hold, including what is still being cleared.
        tenants: the tenants with slices there, those with most first.
        new_slices: room for new slices.
    """

    settings: SuperState
    capacity: Amounts
    placed: Amounts
    tenants: tuple[TenantShare, ...]
    new_slices: NewSlices


def explain_super_cluster(snapshot: Snapshot, super_id: str, size: Mapping[str, str]) -> SuperExplanation:
    """Explain a super cluster.

    Args:
        snapshot: the state of the pool, with the super cluster.
        super_id: its id.
        size: the slice whose room is wanted. Its Pods follow the pool unless it names them.
    """
    settings = next(each for each in snapshot.super_clusters if each.id == super_id)
    views, problem = _views(snapshot, super_id)
    tenants = _tenants(snapshot, super_id)
    placed: Resources = {}
    for each in tenants:
        placed = add(placed, add(from_quantities(each.amounts), from_quantities(each.clearing)))
    return SuperExplanation(
        settings=settings,
        capacity=to_quantities(views[super_id].capacity) if super_id in views else {},
        placed=to_quantities(placed),
        tenants=tenants,
        new_slices=_new_slices(views, super_id, placed, _sized(size, views), problem),
    )


def _views(snapshot: Snapshot, super_id: str) -> tuple[dict[str, SuperView], str]:
    """Return the views that can be made, and why that of one super cluster cannot."""
    views: dict[str, SuperView] = {}
    problem = ""
    for each in snapshot.super_clusters:
        try:
            views[each.id] = view_of(each)
        except InvalidSnapshot as error:
            problem = str(error) if each.id == super_id else problem
    return views, problem


def _sized(size: Mapping[str, str], views: Mapping[str, SuperView]) -> Resources:
    amounts = from_quantities(size)
    compute = {name: amounts[name] for name in DIMENSIONS}
    pods = slice_pods(compute, amounts) if PODS in amounts else pods_of_pool(compute, views, None)
    return compute | pods


def _tenants(snapshot: Snapshot, super_id: str) -> tuple[TenantShare, ...]:
    names = snapshot.names()
    found: dict[str, tuple[int, int, Resources, Resources]] = {}
    for each in snapshot.namespaces:
        slices = each.placements.get(super_id, 0)
        clearing = from_quantities(each.clearing.get(super_id, {}))
        if slices or clearing:
            number, total, amounts, held = found.get(each.tenant, (0, 0, {}, {}))
            size = from_quantities(each.placed_slice_size or each.slice_size)
            found[each.tenant] = (
                number + bool(slices),
                total + slices,
                add(amounts, times(size, slices)),
                add(held, clearing),
            )
    shares = (
        TenantShare(
            tenant=names[key],
            namespaces=number,
            slices=total,
            amounts=to_quantities(amounts),
            clearing=to_quantities(held),
        )
        for key, (number, total, amounts, held) in found.items()
    )
    return tuple(sorted(shares, key=lambda each: (-each.slices, each.tenant)))


def _new_slices(
    views: Mapping[str, SuperView], super_id: str, placed: Resources, size: Resources, problem: str
) -> NewSlices:
    if problem:
        refused, fit = [(HEADROOM, problem)], 0
    else:
        view = views[super_id]
        # A decision on no slice tells what the next one would be refused for.
        [result] = place_slices({super_id: view}, {super_id: placed}, SliceRequest(0, size)).explanation
        refused = [(each.filter, each.message) for each in result.refusals]
        free = {name: amount - placed.get(name, 0) for name, amount in view.capacity.items()}
        fit = 0 if refused else pieces(free, size)
    return NewSlices(
        size=to_quantities(size),
        fit=fit,
        obstacles=tuple(
            Obstacle(filter=name, message=message, remedy=REMEDIES[name].format(id=super_id))
            for name, message in refused
        ),
    )
