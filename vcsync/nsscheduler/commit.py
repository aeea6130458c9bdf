"""Carries out what was decided on a namespace, in the one order that is safe to be interrupted anywhere."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement, status_patch, to_wire
from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope, untyped
from vcsync.kube.errors import NotFound
from vcsync.kube.events import EventType
from vcsync.kube.patches import create_merge_patch
from vcsync.kube.resources import NAMESPACES, RESOURCE_QUOTAS
from vcsync.nsscheduler.fence import NotLeading
from vcsync.nsscheduler.mirror import mirror_patch
from vcsync.nsscheduler.reconcile import Facts, Wish, counted_hard, finalizers_for
from vcsync.scheduling.slices import quota_from_hards
from vcsync.tenancy.terms import UNCONTESTED, Office

Body = dict[str, Any]


class MissingRootNamespace(Exception):
    """The tenant's root namespace in the meta cluster, where its ledger is, does not exist."""


class LedgerWrites(Struct, frozen=True):
    """Writing NamespacePlacements; all answers are taken note of by whoever provides these functions.

    `create(namespace, body)`, `patch(namespace, name, patch, subresource)`, `delete(namespace, name, uid, version)`.
    What is patched or deleted must still be in the version that was read: see `fence`.
    """

    create: Callable[[str, Body], Awaitable[Envelope]]
    patch: Callable[[str, str, Body, str], Awaitable[Envelope]]
    delete: Callable[[str, str, str, str], Awaitable[None]]


class TenantDoor(Struct, frozen=True):
    """What is done in a tenant's control plane.

    `withdraw(facts, what)`: lets a placement go because the tenant's `namespace` or `quota` is gone; raises Braked if too many
    are to go that the tenant was not seen to give up, WrongControlPlane if the control plane is not the tenant's.
    `live_namespace(name)`: read past all caches, None if there is none. `live_hards(namespace)`: likewise,
    the `spec.hard` of the ResourceQuotas that count. `patch_namespace(name, patch)`. `emit(namespace, type,
    reason, message)`: an Event about it.
    """

    withdraw: Callable[[Facts, str], Awaitable[None]]
    live_namespace: Callable[[str], Awaitable[Envelope | None]]
    live_hards: Callable[[str], Awaitable[Sequence[Mapping[str, str]]]]
    patch_namespace: Callable[[str, Body], Awaitable[Envelope]]
    emit: Callable[[Envelope, EventType, str, str], None]


async def commit(facts: Facts, wish: Wish, ledger: LedgerWrites, tenant: TenantDoor) -> None:
    """Write what differs: the ledger entry with its finalizers, then its status, then the tenant's mirror.

    A super cluster's drain finalizer is there before it is given slices, so that nothing can stand there that
    nobody clears. Every write is refused if the entry changed since it was read.

    Raises:
        KubeError: a write failed; what was written stays, reconcile again.
        MissingRootNamespace: the ledger has nowhere to be.
        Braked: too many placements would go.
        WrongControlPlane: the control plane is not the tenant's.
    """
    if wish.delete:
        await _delete(facts, wish, ledger, tenant)
    else:
        await _write_entry(facts, wish, ledger)
    if wish.placements is not None and facts.namespace is not None:
        patch = mirror_patch(facts.namespace, wish.placements, wish.assumed)
        if patch is not None:
            await tenant.patch_namespace(facts.namespace.name, patch)


async def _delete(facts: Facts, wish: Wish, ledger: LedgerWrites, tenant: TenantDoor) -> None:
    """Delete the entry, if a look past all caches confirms the reason for it."""
    placement = facts.placement
    if placement is None or placement.deleting:
        return
    if await _confirmed(facts, wish, tenant):
        await tenant.withdraw(facts, wish.confirm)
        await ledger.delete(placement.namespace, placement.name, placement.uid, placement.resource_version)


async def _confirmed(facts: Facts, wish: Wish, tenant: TenantDoor) -> bool:
    assert facts.placement is not None  # noqa: S101 - the caller looked
    live = await tenant.live_namespace(facts.key[1])
    if wish.confirm == "namespace":
        return live is None or live.uid != facts.placement.spec.namespace_uid
    if live is None or live.deleting:
        return False  # its quotas go with it; that is no wish of the tenant's
    quota = quota_from_hards(await tenant.live_hards(facts.key[1]), facts.virtual_cluster.spec.default_quota)
    return not any(quota.values())


async def _write_entry(facts: Facts, wish: Wish, ledger: LedgerWrites) -> None:
    if wish.spec is None or wish.status is None:
        return
    root, name = facts.key
    placement = facts.placement
    finalizers = finalizers_for(placement, wish.status)
    if placement is None:
        placement = await _create(root, name, wish, finalizers, ledger)
    else:
        change: Body = {}
        spec = create_merge_patch(to_wire(placement.spec), to_wire(wish.spec))
        if spec is not None:
            change["spec"] = spec
        if finalizers != placement.finalizers:
            change["metadata"] = {"finalizers": list(finalizers)}
        if change:
            change.setdefault("metadata", {})["resourceVersion"] = placement.resource_version
            written = await ledger.patch(root, name, change, "")
            placement = NamespacePlacement.from_envelope(written)
    patch = status_patch(placement.status, wish.status, resource_version=placement.resource_version)
    if patch is not None:
        await ledger.patch(root, name, patch, "status")


async def _create(
    root: str, name: str, wish: Wish, finalizers: tuple[str, ...], ledger: LedgerWrites
) -> NamespacePlacement:
    assert wish.spec is not None  # noqa: S101 - the caller looked
    body: Body = {
        "apiVersion": names.API_VERSION,
        "kind": NAMESPACE_PLACEMENTS.kind,
        "metadata": {"name": name, "namespace": root, "finalizers": list(finalizers)},
        "spec": to_wire(wish.spec),
    }
    try:
        created = await ledger.create(root, body)
    except NotFound as error:
        raise MissingRootNamespace(
            f"namespace {root} does not exist in the meta cluster; create it (`vcsync tenant add` does)"
        ) from error
    return NamespacePlacement.from_envelope(created)


# The functions, on real clients


def ledger_writes(
    meta: Client,
    observe: Callable[[Envelope], None],
    gone: Callable[[str, str, str], None],
    office: Office = UNCONTESTED,
) -> LedgerWrites:
    """Write to the meta cluster; `observe` and `gone` hear of every answer before the caller goes on.

    All of them raise `NotLeading`, and send nothing, when `office` may be another's.
    """

    def require_office() -> None:
        if not office.sure():
            raise NotLeading("the lease may be another's: nothing was written")

    async def create(namespace: str, body: Body) -> Envelope:
        require_office()
        if office.term:
            metadata = body["metadata"] | {"annotations": {names.LEDGER_TERM: office.term}}
            body = body | {"metadata": metadata}
        answer = await meta.create(NAMESPACE_PLACEMENTS, body, namespace)
        observe(answer)
        return answer

    async def patch(namespace: str, name: str, change: Body, subresource: str) -> Envelope:
        require_office()
        answer = await meta.patch(NAMESPACE_PLACEMENTS, name, change, namespace, subresource=subresource)
        observe(answer)
        return answer

    async def delete(namespace: str, name: str, uid: str, version: str) -> None:
        require_office()
        try:
            left = await meta.delete(NAMESPACE_PLACEMENTS, name, namespace, uid=uid, resource_version=version)
        except NotFound:
            left = None
        if left is None:
            gone(namespace, name, uid)
        else:
            observe(left)

    return LedgerWrites(create, patch, delete)


def tenant_door(
    client: Client,
    observe: Callable[[Envelope], None],
    emit: Callable[[Envelope, EventType, str, str], None],
    withdraw: Callable[[Facts, str], Awaitable[None]],
) -> TenantDoor:
    """Work in one tenant's control plane; `observe` hears of every patched Namespace."""

    async def live_namespace(name: str) -> Envelope | None:
        try:
            return await client.get(NAMESPACES, name)
        except NotFound:
            return None

    async def live_hards(namespace: str) -> list[dict[str, str]]:
        quotas = await client.list(RESOURCE_QUOTAS, namespace)
        return [hard for quota in quotas if (hard := counted_hard(untyped(quota.spec))) is not None]

    async def patch_namespace(name: str, patch: Body) -> Envelope:
        answer = await client.patch(NAMESPACES, name, patch)
        observe(answer)
        return answer

    return TenantDoor(withdraw, live_namespace, live_hards, patch_namespace, emit)
