"""Reconciles one Tenant: reads the facts, writes the status, takes the next step, and repeats this."""

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.conditions import condition_of
from vcsync.api.names import InvalidName
from vcsync.api.objects import (
    InvalidObject,
    Tenant,
    TenantTemplate,
    VirtualCluster,
    cluster_key,
    status_patch,
)
from vcsync.api.resources import TENANT_TEMPLATES, TENANTS, VIRTUAL_CLUSTERS
from vcsync.api.specs import DEFAULT_WEIGHT
from vcsync.kube.client import Client
from vcsync.kube.errors import (
    Conflict,
    CredentialsError,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    Unreachable,
)
from vcsync.kube.events import EventRecorder, EventType, ObjectRef
from vcsync.kube.resources import NAMESPACES
from vcsync.objects.times import time_text
from vcsync.registration.cluster_identity import cluster_uid
from vcsync.registration.errors import RegistrationError
from vcsync.registration.name_server_domain import with_domain
from vcsync.registration.registered import find
from vcsync.registration.removal import removal_waits_for
from vcsync.registration.suspension import suspension_waits_for
from vcsync.registration.tenants import check_control_plane, store_credentials, virtual_cluster
from vcsync.tenantcontroller import request_limits
from vcsync.tenantcontroller.control_planes import EmbeddedControlPlanes, ExternalControlPlanes
from vcsync.tenantcontroller.model import READY, UNKNOWN, ControlPlane, Plan, Problem, Seen, Step
from vcsync.tenantcontroller.plan import (
    emptied_limits,
    failure,
    generation_of,
    is_registered_only,
    kind_of,
    limits_of,
    plan,
    was_suspended,
)
from vcsync.tenantcontroller.quota import quota_of
from vcsync.tenantcontroller.settings import Settings
from vcsync.tenantcontroller.status import status_of
from vcsync.tenantcontroller.template import choose, missing

FIELD_MANAGER: Final = "vcsync/tenants"
ROUNDS: Final = 20
"""Steps that are taken without a pause. A life has fewer; more mean that a step has no effect."""

_log = structlog.get_logger(__name__)


class _Root(Struct, frozen=True):
    """A root namespace."""

    uid: str
    deleting: bool


class Reconciler:
    """Takes the steps of Tenants.

    Args:
        meta: client of the meta cluster.
        embedded: embedded control planes.
        external: external control planes.
        events: records Events about Tenants.
        settings: the operator's settings.
    """

    def __init__(
        self,
        meta: Client,
        *,
        embedded: EmbeddedControlPlanes,
        external: ExternalControlPlanes,
        events: EventRecorder,
        settings: Settings,
    ) -> None:
        self._meta = meta
        self._embedded = embedded
        self._external = external
        self._events = events
        self._settings = settings
        self._steps: Mapping[Step, Callable[[Seen], Awaitable[None]]] = {
            Step.MANAGE: self._manage,
            Step.CREATE_CONTROL_PLANE: self._create_control_plane,
            Step.CREATE_VIRTUAL_CLUSTER: self._create_virtual_cluster,
            Step.STORE_CREDENTIALS: self._store_credentials,
            Step.SUSPEND: self._suspend,
            Step.SET_LIMITS: self._set_limits,
            Step.LIMIT_REQUESTS: self._limit_requests,
            Step.SET_QUOTA: self._set_quota,
            Step.DELETE_CONTROL_PLANE: self._delete_control_plane,
            Step.DELETE_VIRTUAL_CLUSTER: self._delete_virtual_cluster,
            Step.DELETE_ROOT: self._delete_root,
            Step.RELEASE: self._release,
        }

    async def reconcile(self, name: str) -> float | None:
        """Bring a Tenant closer to its wanted state.

        Args:
            name: name of the Tenant.

        Returns:
            Seconds until it needs another look; None if it does not exist.

        Raises:
            KubeError: a step failed; the status says which. It is to be retried.
        """
        for _ in range(ROUNDS):
            try:
                tenant = Tenant.from_envelope(await self._meta.get(TENANTS, name))
            except NotFound:
                return None
            except InvalidObject as error:
                _log.error("Tenant cannot be read", tenant=name, error=str(error))
                return self._settings.resync
            pause = await self._round(tenant)
            if pause is not None:
                return pause
        _log.warning(
            "tenant does not settle: is the CustomResourceDefinition of an earlier version? Run 'vcsync install'",
            tenant=name,
        )
        return self._settings.resync

    async def _round(self, tenant: Tenant) -> float | None:
        """Take one step. Returns the seconds to the next look, or None to look again now."""
        seen = Seen(tenant=tenant)
        try:
            seen = await self._look(tenant)
            decided = plan(seen)
            seen = replace(seen, tenant=await self._show(seen, decided))
            if decided.step is None:
                return self._pause(seen, decided)
            await self._steps[decided.step](seen)
        except Conflict as error:  # An object changed after it was read: look again.
            _log.debug("tenant changed meanwhile", tenant=tenant.name, error=str(error))
            return self._settings.poll
        except RegistrationError as error:
            await self._show(seen, failure(seen, Problem("Refused", str(error))))
            return self._settings.retry
        except (KubeError, InvalidObject, InvalidName) as error:
            await self._show(seen, failure(seen, _problem(error)))
            raise
        _log.info("tenant step", tenant=tenant.name, step=decided.step.value)
        return None

    def _pause(self, seen: Seen, decided: Plan) -> float:
        if decided.under_way:
            return self._settings.poll
        if seen.control_plane.quota is not None:  # its usage is shown
            return self._settings.retry
        return self._settings.retry if decided.phase == "Error" else self._settings.resync

    # Looking

    async def _look(self, tenant: Tenant) -> Seen:
        if tenant.status.control_plane_uid:
            vc = await self._find_virtual_cluster(tenant.name)
        else:  # One that was made by hand may have another name or namespace.
            vc = await find(self._meta, tenant.name)
        if is_registered_only(tenant, vc):
            aside = await self._embedded.why_aside(tenant.name)
            return Seen(tenant=tenant, virtual_cluster=vc, control_plane=replace(UNKNOWN, aside=aside))
        if names.TENANT_FINALIZER not in tenant.finalizers:
            return Seen(tenant=tenant, virtual_cluster=vc)
        seen = Seen(tenant=tenant, virtual_cluster=vc, control_plane=await self._find_control_plane(tenant))
        if not tenant.deleting:
            chosen = choose(tenant, await self._find_template(tenant))
            seen = replace(
                seen, tenant=chosen.tenant, template=chosen.template, template_problem=chosen.problem
            )
            if not tenant.spec.suspended or vc is None:
                return seen
            return replace(seen, draining=await suspension_waits_for(self._meta, cluster_key(vc)))
        if vc is not None and vc.deleting:
            draining = await removal_waits_for(self._meta, cluster_key(vc))
            return Seen(
                tenant=tenant, virtual_cluster=vc, control_plane=seen.control_plane, draining=draining
            )
        root = await self._find_root(tenant)
        return Seen(
            tenant=tenant,
            virtual_cluster=vc,
            control_plane=seen.control_plane,
            root="Absent" if root is None else "Deleting" if root.deleting else "Present",
        )

    async def _find_template(self, tenant: Tenant) -> TenantTemplate | Problem | None:
        name = tenant.spec.template
        if name is None:
            return None
        try:
            return TenantTemplate.from_envelope(await self._meta.get(TENANT_TEMPLATES, name))
        except NotFound:
            return missing(name)
        except InvalidObject as error:
            return Problem("InvalidTemplate", f"spec.template: {error}")

    async def _find_virtual_cluster(self, name: str) -> VirtualCluster | None:
        try:
            return VirtualCluster.from_envelope(
                await self._meta.get(VIRTUAL_CLUSTERS, name, names.DEFAULT_VC_NAMESPACE)
            )
        except NotFound:
            return None

    async def _find_control_plane(self, tenant: Tenant) -> ControlPlane:
        kind = tenant.status.control_plane if tenant.deleting else kind_of(tenant)
        if kind == "Embedded":
            known = tenant.deleting or bool(tenant.status.control_plane_uid and tenant.status.endpoint)
            return await self._embedded.find(tenant, known=known)
        if kind == "External" and not tenant.deleting:
            found = await self._external.find(tenant)
            if found.state != "Present":
                return found
            found = replace(found, door=await self._embedded.door(tenant.name))
            if not (tenant.spec.suspended or was_suspended(tenant)):
                return found
            return replace(found, suspended=await self._embedded.is_suspended(tenant.name))
        return UNKNOWN

    async def _find_root(self, tenant: Tenant) -> "_Root | None":
        name = tenant.status.cluster_namespace
        if not name:
            return None
        try:
            found = await self._meta.get(NAMESPACES, name)
        except NotFound:
            return None
        marks = found.annotations
        ours = marks.get(names.VC_ROOT_NAMESPACE) == names.TRUE and marks.get(names.VC_NAME) == tenant.name
        return _Root(found.uid, found.deleting) if ours else None

    # Showing

    async def _show(self, seen: Seen, decided: Plan) -> Tenant:
        """Write the status, and an Event if the reason of the condition Ready has changed. Returns the Tenant afterwards."""
        tenant = seen.tenant
        status = status_of(seen, decided, time_text(datetime.now(UTC)))
        patch = status_patch(tenant.status, status)
        if patch is None:
            return tenant
        patch["metadata"] = {"uid": tenant.uid}
        written = await self._meta.patch(TENANTS, tenant.name, patch, subresource="status")
        before, after = condition_of(tenant.status.conditions, READY), condition_of(status.conditions, READY)
        if after is None or (
            before is not None and (before.status, before.reason) == (after.status, after.reason)
        ):
            return Tenant.from_envelope(written)
        _log.info("tenant", tenant=tenant.name, phase=status.phase, reason=after.reason)
        regarding = ObjectRef(names.API_VERSION, "Tenant", tenant.name, uid=tenant.uid)
        kind: EventType = "Warning" if status.phase == "Error" else "Normal"
        self._events.emit(regarding, kind, after.reason, after.message, now=time.time())
        return Tenant.from_envelope(written)

    # Steps of the creation

    async def _manage(self, seen: Seen) -> None:
        """Add the finalizer, and take away the marks of a registration by command.

        The namespace scheduler deletes a Tenant with these marks once its VirtualCluster is gone.
        """
        tenant = seen.tenant
        metadata = {
            "resourceVersion": tenant.resource_version,
            "finalizers": [*tenant.finalizers, names.TENANT_FINALIZER],
            "annotations": {names.VC_UID: None, names.REGISTERED_BY: None},
        }
        await self._meta.patch(TENANTS, tenant.name, {"metadata": metadata})

    async def _create_control_plane(self, seen: Seen) -> None:
        await self._embedded.create(seen.tenant.name, seen.tenant.spec.network)

    async def _create_virtual_cluster(self, seen: Seen) -> None:
        tenant = seen.tenant
        planes = self._planes(tenant)
        async with planes.open(await planes.kubeconfig(tenant), tenant.name) as control_plane:
            uid = await cluster_uid(control_plane)
            await check_control_plane(self._meta, control_plane, tenant.name, uid)
            defaults = {**self._settings.defaults, "tenant": tenant.name}
            spec = await with_domain(control_plane, defaults)
        body = virtual_cluster(tenant.name, spec, uid)
        await self._meta.create(VIRTUAL_CLUSTERS, body, names.DEFAULT_VC_NAMESPACE)

    async def _store_credentials(self, seen: Seen) -> None:
        tenant, vc = seen.tenant, _required(seen.virtual_cluster)
        planes = self._planes(tenant)
        async with planes.open(await planes.kubeconfig(tenant), tenant.name) as control_plane:
            await store_credentials(
                self._meta, vc, lambda root: planes.role_secrets(control_plane, tenant, root)
            )
        version = seen.control_plane.kubeconfig_version
        if version:
            patch = {"metadata": {"uid": vc.uid, "annotations": {names.KUBECONFIG_VERSION: version}}}
            await self._meta.patch(VIRTUAL_CLUSTERS, vc.name, patch, vc.namespace)

    async def _suspend(self, seen: Seen) -> None:
        await self._embedded.suspend(seen.tenant.name, suspended=seen.tenant.spec.suspended)

    async def _set_quota(self, seen: Seen) -> None:
        await self._embedded.set_quota(seen.tenant.name, quota_of(seen.tenant))

    async def _set_limits(self, seen: Seen) -> None:
        """Apply the limits, so that a limit that the Tenant no longer has is taken away, and other fields stay."""
        try:
            await self._apply_limits(seen)
        except Invalid as error:
            emptied = emptied_limits(error.status)
            if not emptied:
                raise
            # Server-side apply turns a map into null when it takes its last value away, and the schema refuses null.
            vc = _required(seen.virtual_cluster)
            removal = {"metadata": {"uid": vc.uid}, "spec": dict.fromkeys(emptied)}
            await self._meta.patch(VIRTUAL_CLUSTERS, vc.name, removal, vc.namespace)
            await self._apply_limits(seen)

    async def _apply_limits(self, seen: Seen) -> None:
        tenant, vc = seen.tenant, _required(seen.virtual_cluster)
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "VirtualCluster",
            "metadata": {
                "name": vc.name,
                "namespace": vc.namespace,
                "uid": vc.uid,
                "annotations": {names.TENANT_GENERATION: generation_of(tenant, seen.template)},
            },
            "spec": limits_of(tenant),
        }
        await self._meta.patch(
            VIRTUAL_CLUSTERS,
            vc.name,
            body,
            vc.namespace,
            kind="apply",
            force=True,
            field_manager=FIELD_MANAGER,
        )

    async def _limit_requests(self, seen: Seen) -> None:
        tenant = seen.tenant
        limits = request_limits.wanted(tenant.spec.limits)
        await self._embedded.limit_requests(tenant.name, limits, tenant.spec.weight or DEFAULT_WEIGHT)

    def _planes(self, tenant: Tenant) -> EmbeddedControlPlanes | ExternalControlPlanes:
        return self._external if kind_of(tenant) == "External" else self._embedded

    # Steps of the deletion

    async def _delete_control_plane(self, seen: Seen) -> None:
        await self._embedded.delete(seen.tenant.name, self._settings.grace)

    async def _delete_virtual_cluster(self, seen: Seen) -> None:
        vc = _required(seen.virtual_cluster)
        try:
            await self._meta.delete(VIRTUAL_CLUSTERS, vc.name, vc.namespace, uid=vc.uid)
        except NotFound:
            return

    async def _delete_root(self, seen: Seen) -> None:
        root = await self._find_root(seen.tenant)
        if root is None:
            return
        try:
            await self._meta.delete(NAMESPACES, seen.tenant.status.cluster_namespace, uid=root.uid)
        except NotFound:
            return

    async def _release(self, seen: Seen) -> None:
        tenant = seen.tenant
        metadata = {
            "resourceVersion": tenant.resource_version,
            "finalizers": [each for each in tenant.finalizers if each != names.TENANT_FINALIZER],
        }
        try:
            await self._meta.patch(TENANTS, tenant.name, {"metadata": metadata})
        except NotFound:
            return


def _required(vc: VirtualCluster | None) -> VirtualCluster:
    if vc is None:
        raise ValueError("the step needs the VirtualCluster")
    return vc


def _problem(error: Exception) -> Problem:
    """Return the reason and message of a failed step. Errors contain requests and servers' answers, but no secret."""
    if isinstance(error, CredentialsError | InvalidName | InvalidObject):
        return Problem("Invalid", str(error))
    if isinstance(error, Unreachable):
        return Problem("Unreachable", f"{error}: it is tried again")
    if isinstance(error, Forbidden):
        return Problem(
            "Forbidden",
            f"{error}: if a right of the tenant controller is missing, run 'vcsync install' again",
        )
    return Problem("Failed", f"{error}: it is tried again")
