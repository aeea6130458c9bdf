"""Registration of a tenant: its records in the meta cluster, its root namespace and its roles' credentials."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from vcsync.api import names
from vcsync.api.objects import VirtualCluster, cluster_key
from vcsync.api.resources import TENANTS, VIRTUAL_CLUSTERS
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists
from vcsync.objects.times import time_text
from vcsync.registration import manifests
from vcsync.registration.cluster_identity import cluster_uid, super_cluster_info
from vcsync.registration.errors import RegistrationError
from vcsync.registration.registered import is_managed, require_tenant, super_cluster_of, virtual_clusters
from vcsync.tenancy.proof import recorded_uid

RUNNING_REASON = "TenantControlPlaneRunning"
REGISTERED_BY = "vcsync-cli"


async def register(
    meta_cluster: Client,
    control_plane: Client,
    tenant: str,
    spec: dict[str, Any],
    secrets: Callable[[str], Awaitable[list[dict[str, Any]]]],
) -> tuple[str, str]:
    """Register a tenant; return its control plane's version and its root namespace.

    Args:
        meta_cluster: client of the meta cluster.
        control_plane: client of the tenant's control plane, as its administrator.
        tenant: name of the tenant.
        spec: spec of the VirtualCluster.
        secrets: creates the Secrets with the roles' credentials, for the root namespace.

    Raises:
        RegistrationError: it is registered already, or the control plane has another part in the pool.
    """
    version: str = (await control_plane.version()).get("gitVersion", "")
    uid = await cluster_uid(control_plane)
    await check_control_plane(meta_cluster, control_plane, tenant, uid)
    vc = await _ensure_records(meta_cluster, tenant, spec, uid)
    # The namespace scheduler finds the Tenant of a VirtualCluster by this.
    await meta_cluster.patch(TENANTS, tenant, {"metadata": {"annotations": {names.VC_UID: vc.uid}}})
    return version, await store_credentials(meta_cluster, vc, secrets)


async def store_credentials(
    meta_cluster: Client, vc: VirtualCluster, secrets: Callable[[str], Awaitable[list[dict[str, Any]]]]
) -> str:
    """Create a tenant's root namespace with the roles' credentials, then set its VirtualCluster to Running.

    Args:
        meta_cluster: client of the meta cluster.
        vc: the tenant's VirtualCluster.
        secrets: creates the Secrets with the roles' credentials, for the root namespace.

    Returns:
        Name of the root namespace.

    Raises:
        KubeError: a cluster refused a write. Repeat the call to continue.
        RegistrationError: the root namespace of an earlier attempt is still being deleted.
    """
    root = cluster_key(vc)
    await manifests.apply(meta_cluster, [_root_namespace(vc, root), *await secrets(root)])
    await _set_running(meta_cluster, vc, root)
    return root


def virtual_cluster(tenant: str, spec: Mapping[str, Any], uid: str) -> dict[str, Any]:
    """Return the VirtualCluster of a tenant.

    Args:
        tenant: name of the tenant.
        spec: spec of the VirtualCluster.
        uid: UID of `kube-system` in the control plane.
    """
    return {
        "metadata": {
            "name": tenant,
            "namespace": names.DEFAULT_VC_NAMESPACE,
            "annotations": {names.CONTROL_PLANE_UID: uid},
            "finalizers": [names.VIRTUAL_CLUSTER_DRAIN_FINALIZER],
        },
        "spec": dict(spec),
    }


async def check_control_plane(meta_cluster: Client, control_plane: Client, tenant: str, uid: str) -> None:
    """Refuse a control plane with another part in the pool: roles of two tenants would conflict over it."""
    if uid == await cluster_uid(meta_cluster):
        raise RegistrationError(
            "the kubeconfig leads to the meta cluster; a tenant is administrator of its control plane and "
            "could rewrite the ledger: give the tenant a control plane of its own"
        )
    found = await super_cluster_info(control_plane)
    if found is not None and found[1].get(names.SUPER_CLUSTER_INFO_KEY):
        raise RegistrationError(
            f"the kubeconfig leads to super cluster {found[1][names.SUPER_CLUSTER_INFO_KEY]!r}; a tenant is "
            "administrator of its control plane: give the tenant one of its own"
        )
    other = await super_cluster_of(meta_cluster, uid)
    if other is not None:
        raise RegistrationError(
            f"the kubeconfig leads to super cluster {other!r}; a tenant is administrator of its control plane: "
            "give the tenant one of its own"
        )
    for vc in await virtual_clusters(meta_cluster):
        same = recorded_uid(vc) == uid
        if same and (vc.namespace, vc.name) != (names.DEFAULT_VC_NAMESPACE, tenant):
            raise RegistrationError(
                f"the kubeconfig leads to the control plane of tenant {vc.spec.tenant or vc.name}"
            )


async def _ensure_records(
    meta_cluster: Client, tenant: str, spec: dict[str, Any], uid: str
) -> VirtualCluster:
    """Create Tenant and VirtualCluster, or continue with those of an interrupted attempt."""
    tenant_spec = {"weight": spec["weight"]}
    if "quota" in spec:
        tenant_spec["quota"] = spec["quota"]
    body = virtual_cluster(tenant, spec, uid)
    # The tenant controller is to make no control plane for it.
    mark = {"annotations": {names.REGISTERED_BY: REGISTERED_BY}}
    try:
        await meta_cluster.create(TENANTS, {"metadata": {"name": tenant, **mark}, "spec": tenant_spec})
    except AlreadyExists:
        if await is_managed(meta_cluster, tenant):
            raise RegistrationError(
                f"tenant {tenant} is managed by its Tenant object, whose spec.controlPlane says where its API is; "
                f"'kubectl describe tenant {tenant}' shows its state"
            ) from None
        await meta_cluster.patch(TENANTS, tenant, {"metadata": mark, "spec": tenant_spec})
    try:
        return VirtualCluster.from_envelope(
            await meta_cluster.create(VIRTUAL_CLUSTERS, body, names.DEFAULT_VC_NAMESPACE)
        )
    except AlreadyExists:
        pass
    vc = await require_tenant(meta_cluster, tenant)
    if vc.deleting:
        raise RegistrationError(
            f"tenant {tenant} is being removed; wait for 'vcsync tenant remove {tenant}' to end"
        )
    if vc.status.phase == "Running":
        raise RegistrationError(
            f"tenant {tenant} is registered already; 'vcsync tenant remove {tenant}' removes it"
        )
    if (recorded_uid(vc) or uid) != uid:
        raise RegistrationError(
            f"an earlier 'tenant add {tenant}' was cut off and had another control plane; "
            f"run 'vcsync tenant remove {tenant}' first"
        )
    patch = {"metadata": {"annotations": {names.CONTROL_PLANE_UID: uid}}, "spec": spec}
    return VirtualCluster.from_envelope(
        await meta_cluster.patch(VIRTUAL_CLUSTERS, tenant, patch, names.DEFAULT_VC_NAMESPACE)
    )


def _root_namespace(vc: VirtualCluster, root: str) -> dict[str, Any]:
    annotations = {
        names.VC_NAME: vc.name,
        names.VC_NAMESPACE: vc.namespace,
        names.VC_UID: vc.uid,
        names.VC_ROOT_NAMESPACE: names.TRUE,
    }
    return manifests.namespace(root, annotations)


async def _set_running(meta_cluster: Client, vc: VirtualCluster, root: str) -> None:
    message = "credentials are stored and accepted"
    now = time_text(datetime.now(UTC))
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": RUNNING_REASON,
        "message": message,
        "lastTransitionTime": now,
    }
    status = {
        "phase": "Running",
        "clusterNamespace": root,
        "reason": RUNNING_REASON,
        "message": message,
        "conditions": [condition],
    }
    await meta_cluster.patch(
        VIRTUAL_CLUSTERS, vc.name, {"status": status}, vc.namespace, subresource="status"
    )
