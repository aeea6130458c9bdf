"""Writes the plan for a namespace, in an order in which it can be interrupted after any write."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement, status_patch, to_wire
from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.kube.errors import NotFound
from vcsync.kube.events import EventType
from vcsync.nsscheduler.mirror import mirror_patch
from vcsync.nsscheduler.reconcile import Inputs, Plan, default_quota, finalizers_for
from vcsync.objects.envelope import Envelope
from vcsync.objects.merge_patch import create_merge_patch
from vcsync.scheduling.slices import quota_from_hards

Body = dict[str, Any]


class MissingRootNamespace(Exception):
    """The tenant's root namespace in the meta cluster, which contains its ledger entries, does not exist."""


class Ledger(Protocol):
    """Writes NamespacePlacements. The caller's cache knows each answer before the method returns.

    An object that is patched or deleted must still have the version that was read: see `fence`.

    Every method raises `NotLeading`, and sends nothing, if another process may hold the lease.
    """

    async def create(self, namespace: str, body: Body) -> Envelope:
        """Create an entry."""
        ...

    async def patch(self, namespace: str, name: str, change: Body, subresource: str) -> Envelope:
        """Patch an entry, or its status if `subresource` is `status`."""
        ...

    async def delete(self, namespace: str, name: str, uid: str, version: str) -> None:
        """Delete the entry that has this UID and resourceVersion."""


class TenantControlPlane(Protocol):
    """The requests of the namespace scheduler to one tenant's control plane."""

    async def withdraw(self, inputs: Inputs, lost: str) -> None:
        """Permit the removal of a placement whose `namespace` or `quota` is gone.

        Raises:
            Braked: too many placements would be removed without an observed request of the tenant.
            WrongControlPlane: the control plane is not the tenant's.
        """

    async def live_namespace(self, name: str) -> Envelope | None:
        """Read a Namespace past all caches; None if it does not exist."""
        ...

    async def live_hards(self, namespace: str) -> Sequence[Mapping[str, str]]:
        """Read `spec.hard` of the ResourceQuotas that count, past all caches."""
        ...

    async def patch_namespace(self, name: str, patch: Body) -> Envelope:
        """Patch a Namespace."""
        ...

    def emit(self, namespace: Envelope, kind: EventType, reason: str, message: str) -> None:
        """Record an Event about a Namespace."""


async def commit(
    inputs: Inputs,
    plan: Plan,
    ledger: Ledger,
    tenant: TenantControlPlane | None,
    written: Callable[[], None] = lambda: None,
) -> None:
    """Write the differences: the ledger entry with its finalizers, then its status, then the tenant's mirror.

    A super cluster gets its drain finalizer before it gets slices. So its syncer removes all objects before the entry
    can be removed. A write fails if the entry has changed since it was read.

    Args:
        inputs: the inputs of the decision.
        plan: the decision.
        ledger: the ledger.
        tenant: the tenant's control plane; None if it is not connected, so that it has to confirm nothing.
        written: called when the entry is as decided, before the tenant's mirror is.

    Raises:
        KubeError: a write failed. Earlier writes remain; the namespace must be reconciled again.
        MissingRootNamespace: the tenant's root namespace does not exist.
        Braked: too many placements would be removed.
        WrongControlPlane: the control plane is not the tenant's.
    """
    permitted = tenant is None or await _permitted(inputs, plan, tenant)
    if permitted and plan.delete:
        await _delete(inputs, ledger)
    elif permitted:
        await _write_entry(inputs, plan, ledger)
    written()
    if permitted and tenant is not None and plan.placements is not None and inputs.namespace is not None:
        patch = mirror_patch(inputs.namespace, plan.placements, plan.assumed)
        if patch is not None:
            await tenant.patch_namespace(inputs.namespace.name, patch)


async def _permitted(inputs: Inputs, plan: Plan, tenant: TenantControlPlane) -> bool:
    """Return whether the entry may be written: slices are withdrawn only if a live read confirms the reason for it."""
    placement = inputs.placement
    if not plan.confirm or placement is None or placement.deleting:
        return True
    if plan.confirm == "quota" and not placement.status.placements and not plan.delete:
        return True  # they have been withdrawn
    if not await _confirmed(inputs, plan, tenant):
        return False
    if placement.status.placements:
        await tenant.withdraw(inputs, plan.confirm)
    return True


async def _delete(inputs: Inputs, ledger: Ledger) -> None:
    """Delete the entry. Its finalizers keep it until the syncers have removed the namespace's objects."""
    placement = inputs.placement
    if placement is not None and not placement.deleting:
        await ledger.delete(placement.namespace, placement.name, placement.uid, placement.resource_version)


async def _confirmed(inputs: Inputs, plan: Plan, tenant: TenantControlPlane) -> bool:
    assert inputs.placement is not None  # noqa: S101 - the caller has checked it
    live = await tenant.live_namespace(inputs.key[1])
    if plan.confirm == "namespace":
        return live is None or live.uid != inputs.placement.spec.namespace_uid
    if live is None or live.deleting:
        return False  # its quotas are deleted with it, which is not a request of the tenant
    quota = quota_from_hards(
        await tenant.live_hards(inputs.key[1]), default_quota(inputs.virtual_cluster, live)
    )
    return not any(quota.values())


async def _write_entry(inputs: Inputs, plan: Plan, ledger: Ledger) -> None:
    if plan.spec is None or plan.status is None:
        return
    root, name = inputs.key
    placement = inputs.placement
    finalizers = finalizers_for(placement, plan.status)
    if placement is None:
        placement = await _create(root, name, plan, finalizers, ledger)
    else:
        change: Body = {}
        spec = create_merge_patch(to_wire(placement.spec), to_wire(plan.spec))
        if spec is not None:
            change["spec"] = spec
        if finalizers != placement.finalizers:
            change["metadata"] = {"finalizers": list(finalizers)}
        if change:
            change.setdefault("metadata", {})["resourceVersion"] = placement.resource_version
            written = await ledger.patch(root, name, change, "")
            placement = NamespacePlacement.from_envelope(written)
    patch = status_patch(placement.status, plan.status, resource_version=placement.resource_version)
    if patch is not None:
        await ledger.patch(root, name, patch, "status")


async def _create(
    root: str, name: str, plan: Plan, finalizers: tuple[str, ...], ledger: Ledger
) -> NamespacePlacement:
    assert plan.spec is not None  # noqa: S101 - the caller has checked it
    body: Body = {
        "apiVersion": names.API_VERSION,
        "kind": NAMESPACE_PLACEMENTS.kind,
        "metadata": {"name": name, "namespace": root, "finalizers": list(finalizers)},
        "spec": to_wire(plan.spec),
    }
    try:
        created = await ledger.create(root, body)
    except NotFound as error:
        raise MissingRootNamespace(
            f"namespace {root} does not exist in the meta cluster; create it (`vcsync tenant add` does)"
        ) from error
    return NamespacePlacement.from_envelope(created)
