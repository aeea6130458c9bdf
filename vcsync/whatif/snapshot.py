"""The state of the pool that decisions about slices depend on, as one readable and versioned file. Pure.

A snapshot has amounts, names and settings only: no credentials, no addresses, no objects of tenants.
"""

import math
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from vcsync.api.specs import STAY, FailBack, Failover, TaintEffect
from vcsync.objects.quantity import InvalidQuantity
from vcsync.scheduling.resources import from_quantities
from vcsync.scheduling.scores import POLICIES
from vcsync.scheduling.slices import MAX_SLICES
from vcsync.scheduling.snapshot import Health, InvalidHeadroom, SuperView, Taint, distributable
from vcsync.tenancy.failure import PATIENCE, Patience

KIND = "PoolSnapshot"
VERSION = 2
"""Version of the format. It changes if an older reader would misunderstand a file."""
WITHOUT_FAILOVER = 1
"""Version that has no policies for lost super clusters. All tenants are assumed to have `Stay` and `Never`, no super cluster to
be fenced, one that is lost to be lost for long, and one that is suspect to be in touch."""
_VERSIONS = (WITHOUT_FAILOVER, VERSION)

Amounts = dict[str, str]
Counts = dict[str, int]


class InvalidSnapshot(ValueError):
    """A snapshot cannot be used. The text names the field and the remedy."""


class _Part(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A part of the file. Unknown fields are refused, since an answer without them could be wrong."""


class SuperTaint(_Part, frozen=True, kw_only=True):
    """A taint of a super cluster."""

    key: str
    value: str = ""
    effect: TaintEffect = "NoSchedule"


class SuperState(_Part, frozen=True, kw_only=True):
    """A super cluster.

    Attributes:
        id: its id.
        health: `Ready`, `Recovering`, `Suspect`, `Unknown` or `Lost`.
        reason: why it is not ready; empty if it is.
        allocatable: allocatable amounts of its ready nodes.
        largest_node: the largest amounts on one node.
        headroom: the part that is not distributed, by resource: a quantity or a share.
        overcommit: the share of the rest that is distributed.
        cordoned: whether it gets no new slices.
        draining: whether its slices are to move elsewhere.
        taints: its taints.
        prices: price per unit (a CPU, a GiB) and hour, by resource.
        labels: labels of the SuperCluster.
        network_id: network whose members route Pod addresses to each other.
        out_of_touch_seconds: seconds for which nobody has known what happens there; None if somebody knows. A super cluster
            that is lost, without a number, has been lost for long.
        fenced: whether an operator guarantees that no Pod runs there any more. It counts as lost then.
    """

    id: str
    health: str = "Ready"
    reason: str = ""
    allocatable: Amounts
    largest_node: Amounts = {}
    headroom: Amounts = {}
    overcommit: Amounts = {}
    cordoned: bool = False
    draining: bool = False
    taints: tuple[SuperTaint, ...] = ()
    prices: Amounts = {}
    labels: Amounts = {}
    network_id: str = ""
    out_of_touch_seconds: int | None = None
    fenced: bool = False


class TenantState(_Part, frozen=True, kw_only=True):
    """A tenant.

    Attributes:
        key: its cluster key.
        name: its name.
        weight: its share of work under contention.
        suspended: whether it has no slices because it is suspended.
        quota: the operator's cap on all its slices together.
        slice_size: the operator's slice for it; None for that of all tenants.
        failover: its policy for lost super clusters as it applies.
        own_failover: whether the policy is its own, and not the default of the schedulers.
        fail_back: its policy for the way back as it applies.
        pods_known: whether the Pods of its namespaces on super clusters are known.
    """

    key: str
    name: str
    weight: int = 1
    suspended: bool = False
    quota: Amounts = {}
    slice_size: Amounts | None = None
    failover: Failover = STAY
    own_failover: bool = False
    fail_back: FailBack = "Never"
    pods_known: bool = False


class PodCounts(_Part, frozen=True, kw_only=True):
    """The unfinished Pods of a namespace on one super cluster.

    Attributes:
        pods: number of Pods.
        with_claims: number of those that use PersistentVolumeClaims.
        of_stateful_sets: number of the others that belong to StatefulSets.
        slices: number of slices that Pods with claims need, one at least if the super cluster has a claim.
    """

    pods: int = 0
    with_claims: int = 0
    of_stateful_sets: int = 0
    slices: int = 0


class NamespaceState(_Part, frozen=True, kw_only=True):
    """A namespace with a quota.

    Attributes:
        tenant: cluster key of its tenant.
        name: its name.
        quota: its quota, as far as it decides the number of slices.
        slice_size: amounts of one slice.
        slices: number of slices that the quota needs.
        pins: super cluster -> number of slices that an operator pinned there.
        placements: super cluster -> number of slices.
        placed_slice_size: amounts of one placed slice; empty for `slice_size`.
        clearing: super cluster -> amounts that it may hold beyond the slices until they are cleared.
        waiting: number of slices that wait.
        leaving: whether the placement is being removed. It holds amounts, and nothing is decided about it.
        pods: super cluster -> its Pods there, if those of the tenant are known.
    """

    tenant: str
    name: str
    quota: Amounts = {}
    slice_size: Amounts
    slices: int
    pins: Counts = {}
    placements: Counts = {}
    placed_slice_size: Amounts = {}
    clearing: dict[str, Amounts] = {}
    waiting: int = 0
    leaving: bool = False
    pods: dict[str, PodCounts] = {}

    @property
    def key(self) -> tuple[str, str]:
        """(cluster key of the tenant, namespace)."""
        return self.tenant, self.name


class Snapshot(_Part, frozen=True, kw_only=True):
    """The whole state.

    Attributes:
        kind: always `PoolSnapshot`.
        version: version of the format that it was read from.
        taken_at: when it was taken, in RFC 3339.
        policy: the namespace scheduler's policy.
        default_slice: its slice for tenants without their own.
        suspect_after_seconds: seconds without heartbeat after which the schedulers take a super cluster for suspect.
        lost_after_seconds: the same for lost.
        super_clusters: in order of ids.
        tenants: in order of keys.
        namespaces: in order of keys.
    """

    kind: Literal["PoolSnapshot"] = "PoolSnapshot"
    version: int = VERSION
    taken_at: str = ""
    policy: str = "spread"
    default_slice: Amounts = {}
    suspect_after_seconds: Annotated[int, Meta(ge=0)] = math.ceil(PATIENCE.suspect_after)
    lost_after_seconds: Annotated[int, Meta(ge=0)] = math.ceil(PATIENCE.lost_after)
    super_clusters: tuple[SuperState, ...] = ()
    tenants: tuple[TenantState, ...] = ()
    namespaces: tuple[NamespaceState, ...] = ()

    @property
    def patience(self) -> Patience:
        """The schedulers' limits of silence."""
        return Patience(float(self.suspect_after_seconds), float(self.lost_after_seconds))

    def names(self) -> dict[str, str]:
        """Return the tenants' names by cluster key."""
        return {each.key: each.name for each in self.tenants}


class _Head(Struct, frozen=True):
    kind: str = ""
    version: int = 0


def ordered(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with its parts in order, so that the order in which they were read has no effect."""
    return msgspec.structs.replace(
        snapshot,
        super_clusters=tuple(sorted(snapshot.super_clusters, key=lambda each: each.id)),
        tenants=tuple(sorted(snapshot.tenants, key=lambda each: each.key)),
        namespaces=tuple(sorted(snapshot.namespaces, key=lambda each: each.key)),
    )


def write(snapshot: Snapshot) -> bytes:
    """Return the text of a snapshot's file: JSON, indented."""
    current = msgspec.structs.replace(ordered(snapshot), version=VERSION)
    return msgspec.json.format(msgspec.json.encode(current), indent=1) + b"\n"


def read(text: bytes) -> Snapshot:
    """Read the text of a snapshot's file.

    Raises:
        InvalidSnapshot: it is no snapshot, has another version, or a field is invalid.
    """
    try:
        head = msgspec.json.decode(text, type=_Head)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidSnapshot(f"not a snapshot ({error}); 'vcsync snapshot save' writes one") from error
    if head.kind != KIND:
        raise InvalidSnapshot(f"kind: {head.kind!r} is not {KIND}; 'vcsync snapshot save' writes one")
    if head.version not in _VERSIONS:
        known = " or ".join(map(str, _VERSIONS))
        raise InvalidSnapshot(
            f"version: {head.version} is not {known}; use the version of vcsync that saved it, or save it again"
        )
    try:
        found = msgspec.json.decode(text, type=Snapshot)
    except msgspec.DecodeError as error:
        raise InvalidSnapshot(f"{error}; save the snapshot again") from error
    _check(found)
    return ordered(found)


def _check(snapshot: Snapshot) -> None:
    """Check what the types do not say.

    Raises:
        InvalidSnapshot: a field is invalid.
    """
    if snapshot.policy not in POLICIES:
        raise InvalidSnapshot(f"policy: {snapshot.policy!r} is not one of {', '.join(sorted(POLICIES))}")
    for field, keys in (
        ("superClusters", [each.id for each in snapshot.super_clusters]),
        ("tenants", [each.key for each in snapshot.tenants]),
        ("namespaces", ["/".join(each.key) for each in snapshot.namespaces]),
    ):
        twice = sorted({each for each in keys if keys.count(each) > 1}) if len(set(keys)) < len(keys) else ()
        if twice:
            raise InvalidSnapshot(f"{field}: {twice[0]} occurs twice; remove one of them")
    _amounts("defaultSlice", snapshot.default_slice)
    known = snapshot.names()
    for one in snapshot.super_clusters:
        view_of(one)
    for tenant in snapshot.tenants:
        where = f"tenants {tenant.key}"
        _amounts(f"{where}: quota", tenant.quota)
        _amounts(f"{where}: sliceSize", tenant.slice_size or {})
        if tenant.weight < 1:
            raise InvalidSnapshot(f"{where}: weight: {tenant.weight} is less than 1")
    for namespace in snapshot.namespaces:
        _check_namespace(namespace, known)


def _check_namespace(namespace: NamespaceState, known: dict[str, str]) -> None:
    where = f"namespaces {'/'.join(namespace.key)}"
    if namespace.tenant not in known:
        raise InvalidSnapshot(
            f"{where}: tenant: {namespace.tenant} is not in tenants; save the snapshot again"
        )
    for field, amounts in (
        ("quota", namespace.quota),
        ("sliceSize", namespace.slice_size),
        ("placedSliceSize", namespace.placed_slice_size),
        *((f"clearing {super_id}", each) for super_id, each in namespace.clearing.items()),
    ):
        _amounts(f"{where}: {field}", amounts, positive="Size" in field)
    counts = (*namespace.pins.values(), *namespace.placements.values(), namespace.slices, namespace.waiting)
    if min(counts) < 0 or max(counts) > MAX_SLICES:
        raise InvalidSnapshot(f"{where}: a number of slices is not from 0 to {MAX_SLICES}; correct it")
    for super_id, each in namespace.pods.items():
        if min(each.pods - each.with_claims - each.of_stateful_sets, *msgspec.structs.astuple(each)) < 0:
            raise InvalidSnapshot(
                f"{where}: pods {super_id}: the numbers contradict each other; correct them"
            )
    if namespace.slices and not namespace.slice_size:
        raise InvalidSnapshot(f"{where}: sliceSize: it is empty; name cpu and memory")


def _amounts(where: str, amounts: Amounts, *, positive: bool = False) -> None:
    try:
        found = from_quantities(amounts)
    except InvalidQuantity as error:
        raise InvalidSnapshot(f"{where}: {error}; write quantities like 2 or 4Gi") from error
    for name, amount in found.items():
        if amount < 0 or (positive and not amount):
            raise InvalidSnapshot(f"{where}: {name} must be {'more than' if positive else 'at least'} zero")


HEALTH = {each.name.capitalize(): each for each in Health}
"""The words for the health of a super cluster."""


def millionths(text: str) -> int:
    """Return a decimal number in millionths; further digits are dropped.

    Raises:
        ValueError: the text is not a decimal number of zero or more.
    """
    whole, _, part = text.partition(".")
    if not text.isascii() or not whole.isdigit() or (part and not part.isdigit()):
        raise ValueError(f"{text!r} is not a decimal number like 0.04")
    return int(whole) * 1_000_000 + int((part + "000000")[:6])


def view_of(state: SuperState) -> SuperView:
    """Return the schedulers' view of a super cluster.

    Raises:
        InvalidSnapshot: a field is invalid.
    """
    where = f"superClusters {state.id}"
    if state.health not in HEALTH:
        raise InvalidSnapshot(f"{where}: health: {state.health!r} is not one of {', '.join(HEALTH)}")
    for field, amounts in (("allocatable", state.allocatable), ("largestNode", state.largest_node)):
        _amounts(f"{where}: {field}", amounts)
    if (state.out_of_touch_seconds or 0) < 0:
        raise InvalidSnapshot(f"{where}: outOfTouchSeconds: it is less than zero; write 0 or more")
    for name, share in state.overcommit.items():
        if not share.removesuffix("%").isdecimal():
            raise InvalidSnapshot(f"{where}: overcommit {name}: {share!r} is not a share like 200%")
    try:
        return SuperView(
            state.id,
            Health.LOST if state.fenced else HEALTH[state.health],
            capacity=distributable(from_quantities(state.allocatable), state.headroom, state.overcommit),
            largest_node=from_quantities(state.largest_node),
            cordoned=state.cordoned,
            draining=state.draining,
            fenced=state.fenced,
            taints=tuple(Taint(each.key, each.value, each.effect) for each in state.taints),
            price={name: millionths(text) for name, text in state.prices.items()},
            network_id=state.network_id,
        )
    except InvalidHeadroom as error:
        raise InvalidSnapshot(f"{where}: {error}") from error
    except ValueError as error:
        raise InvalidSnapshot(f"{where}: prices: {error}") from error


def views_of(snapshot: Snapshot) -> dict[str, SuperView]:
    """Return the schedulers' view of each super cluster, by id."""
    return {each.id: view_of(each) for each in snapshot.super_clusters}


def as_plain(part: Struct) -> Any:
    """Return a part of a snapshot or of an answer as plain values for JSON and YAML."""
    return msgspec.to_builtins(part)
