"""Changes of a snapshot that a question names: lost and added super clusters, larger tenants, other settings. Pure."""

from collections.abc import Mapping
from fractions import Fraction

from msgspec import Struct
from msgspec.structs import replace

from vcsync.api.specs import Failover
from vcsync.scheduling.resources import Resources, from_quantities, to_quantities
from vcsync.scheduling.slices import DIMENSIONS, PODS, InvalidSlice, slice_count, slice_pods
from vcsync.whatif.losses import lose
from vcsync.whatif.snapshot import (
    InvalidSnapshot,
    NamespaceState,
    Snapshot,
    SuperState,
    TenantState,
    ordered,
    view_of,
)


class InvalidEdit(ValueError):
    """A change cannot be made. The text names the option and the remedy."""


class Edits(Struct, frozen=True, kw_only=True):
    """Changes of a snapshot. Without any, it stays the same.

    Attributes:
        lose: ids of super clusters that vanish together, and stay away.
        fence: ids of super clusters that do so, and that an operator fences.
        remove: ids of super clusters that are taken out of the pool.
        add: super clusters that are added.
        scale: name of a tenant -> factor for the quotas of its namespaces and for its cap.
        slice_size: another default slice of all tenants.
        headroom: another headroom of all super clusters, by resource.
        policy: another policy for new slices; empty for that of the snapshot.
        default_failover: another policy for lost super clusters of tenants without their own; None for that of the snapshot.
        failover: another policy for lost super clusters of all tenants; None for theirs.
        failovers: name of a tenant -> its policy for lost super clusters, before `failover`.
    """

    lose: tuple[str, ...] = ()
    fence: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    add: tuple[SuperState, ...] = ()
    scale: dict[str, Fraction] = {}
    slice_size: dict[str, str] = {}
    headroom: dict[str, str] = {}
    policy: str = ""
    default_failover: Failover | None = None
    failover: Failover | None = None
    failovers: dict[str, Failover] = {}

    @property
    def gone(self) -> frozenset[str]:
        """The ids of super clusters that vanish."""
        return frozenset((*self.lose, *self.fence))


def edited(snapshot: Snapshot, edits: Edits) -> Snapshot:
    """Return the snapshot after the changes.

    Raises:
        InvalidEdit: a change names something that does not exist, or exists already, or its result is invalid.
    """
    supers = _supers(snapshot, edits)
    names = snapshot.names()
    for option, wanted in (("--scale-tenant", edits.scale), ("--failover", edits.failovers)):
        unknown = sorted(set(wanted) - set(names.values()))
        if unknown:
            raise InvalidEdit(
                f"{option} {unknown[0]}: there is no such tenant; 'vcsync tenant list' lists them"
            )
    factors = {key: edits.scale[name] for key, name in names.items() if name in edits.scale}
    changed = replace(
        snapshot,
        super_clusters=supers,
        tenants=tuple(_tenant(each, edits, factors.get(each.key)) for each in snapshot.tenants),
        policy=edits.policy or snapshot.policy,
        default_slice={**snapshot.default_slice, **edits.slice_size},
    )
    return ordered(replace(changed, namespaces=_namespaces(snapshot, edits, factors)))


def _supers(snapshot: Snapshot, edits: Edits) -> tuple[SuperState, ...]:
    found = {each.id: each for each in snapshot.super_clusters}
    for option, ids in (("--lose", edits.lose), ("--fence", edits.fence), ("--remove", edits.remove)):
        for super_id in ids:
            if super_id not in found:
                raise InvalidEdit(
                    f"{option} {super_id}: there is no such super cluster; there are {', '.join(found) or 'none'}"
                )
    for super_id in sorted(edits.gone & set(edits.remove)):
        option = "--fence" if super_id in edits.fence else "--lose"
        raise InvalidEdit(f"--remove {super_id}: {option} names it, too; give one of them")
    found = {super_id: each for super_id, each in found.items() if super_id not in edits.remove}
    for each in edits.add:
        if each.id in found:
            raise InvalidEdit(f"--add-super {each.id}: there is such a super cluster; choose another name")
        if PODS not in each.allocatable and any(PODS in other.allocatable for other in found.values()):
            raise InvalidEdit(
                f"--add-super {each.id}: name its pods, too, for instance pods=110 times its nodes: slices have Pods"
            )
        found[each.id] = each
    if edits.headroom:
        found = {
            super_id: replace(each, headroom={**each.headroom, **edits.headroom})
            for super_id, each in found.items()
        }
    if edits.gone:
        found = {each.id: each for each in lose(found.values(), edits.lose, edits.fence, snapshot.patience)}
    for each in found.values():
        try:
            view_of(each)
        except InvalidSnapshot as error:
            raise InvalidEdit(str(error)) from error
    return tuple(found.values())


def _tenant(tenant: TenantState, edits: Edits, factor: Fraction | None) -> TenantState:
    policies = (
        edits.failovers.get(tenant.name),
        edits.failover,
        None if tenant.own_failover else edits.default_failover,
        tenant.failover,
    )
    return replace(
        tenant,
        quota=tenant.quota if factor is None else _scaled(tenant.quota, factor),
        failover=next(each for each in policies if each is not None),
    )


def _scaled(quota: Mapping[str, str], factor: Fraction) -> dict[str, str]:
    """Return a quota times a factor, rounded up to whole thousandths."""
    return to_quantities(
        {
            name: -(-amount * factor.numerator // factor.denominator)
            for name, amount in from_quantities(quota).items()
        }
    )


def _namespaces(
    snapshot: Snapshot, edits: Edits, factors: Mapping[str, Fraction]
) -> tuple[NamespaceState, ...]:
    tenants = {each.key: each for each in snapshot.tenants}
    default = {
        name: amount for name, amount in from_quantities(snapshot.default_slice).items() if name in DIMENSIONS
    }
    return tuple(
        _namespace(each, edits, factors.get(each.tenant), tenants[each.tenant], default)
        for each in snapshot.namespaces
    )


def _namespace(
    namespace: NamespaceState,
    edits: Edits,
    factor: Fraction | None,
    tenant: TenantState,
    default: Resources,
) -> NamespaceState:
    size = from_quantities(namespace.slice_size)
    follows = bool(edits.slice_size) and tenant.slice_size is None and default.items() <= size.items()
    if namespace.leaving or not namespace.slices or (factor is None and not follows):
        return namespace
    quota = namespace.quota if factor is None else _scaled(namespace.quota, factor)
    compute = {name: size[name] for name in DIMENSIONS if name in size}
    if follows:
        wanted = from_quantities(edits.slice_size)
        compute = {name: wanted[name] for name in DIMENSIONS}
        size = compute | ({PODS: wanted[PODS]} if PODS in wanted else slice_pods(compute, size))
    try:
        slices = slice_count(from_quantities(quota), compute)
    except InvalidSlice as error:
        option = "--slice-size" if follows else f"--scale-tenant {tenant.name}"
        raise InvalidEdit(
            f"{option}: namespace {tenant.name}/{namespace.name} cannot be sliced so: {error}"
        ) from error
    return replace(
        namespace,
        quota=quota,
        slices=slices,
        slice_size=to_quantities(size),
        placed_slice_size=namespace.placed_slice_size or namespace.slice_size,
    )
