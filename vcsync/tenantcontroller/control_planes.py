"""Control planes of Tenants: embedded ones by the operator's API, external ones by the kubeconfig in a Secret."""

import base64
import binascii
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
import structlog

from vcsync.api import rbac
from vcsync.api.networks import NetworkSpec
from vcsync.api.objects import Tenant
from vcsync.api.specs import TenantSecretRef
from vcsync.kube.client import Client
from vcsync.kube.errors import (
    AlreadyExists,
    CredentialsError,
    Forbidden,
    KubeError,
    NotFound,
    Unauthorized,
    Unreachable,
)
from vcsync.kube.kubeconfig import Cluster
from vcsync.kube.resources import SECRETS
from vcsync.objects.envelope import Envelope
from vcsync.registration import issued, manifests
from vcsync.registration.accounts import tenant_secrets
from vcsync.registration.cluster_identity import cluster_uid
from vcsync.registration.kubeconfigs import cluster_of, outside_field
from vcsync.tenantcontroller.model import ABSENT, ControlPlane, Problem
from vcsync.tenantcontroller.quota import ObservedQuota
from vcsync.tenantcontroller.request_limits import Door

FORCED_SECONDS: Final = 600.0
"""Timeout for the deletion of a control plane: without a grace period it deletes all objects before it answers."""

OpenClient = Callable[[bytes, str], AbstractAsyncContextManager[Client]]
"""Opens a client from a kubeconfig and a name."""

_log = structlog.get_logger(__name__)


class _Left(msgspec.Struct):
    objects: int = 0
    held: list[tuple[str, int]] = []


class _Record(msgspec.Struct):
    uid: str
    phase: str
    nodes: str = "virtual"
    suspended: bool = False
    deadline: str = ""
    quota: ObservedQuota | None = None
    left: _Left = msgspec.field(default_factory=_Left)
    limits: dict[str, Any] | None = None
    limits_in_force: dict[str, Any] | None = msgspec.field(name="limitsInForce", default=None)
    limits_reached: tuple[str, ...] = msgspec.field(name="limitsReached", default=())
    weight: int = 1
    server: str = ""
    aside: str = ""


class _Secret(msgspec.Struct):
    data: dict[str, str] = {}


class EmbeddedControlPlanes:
    """Embedded control planes of one server, by the operator's API.

    Args:
        server: client of the server, as a program of the operator's space.
        open_client: opens clients of control planes.
    """

    def __init__(self, server: Client, open_client: OpenClient) -> None:
        self._server = server
        self._open = open_client

    async def find(self, tenant: Tenant, *, known: bool) -> ControlPlane:
        """Look at a Tenant's control plane.

        Args:
            tenant: the Tenant.
            known: whether its endpoint and identity have been read already.

        Raises:
            KubeError: the server cannot be asked.
        """
        try:
            answer = await self._server.request("GET", _path(tenant.name))
        except NotFound as error:
            if error.status.message.startswith("tenants "):
                return ABSENT
            return _unusable(
                "NoEmbeddedControlPlanes",
                f"{self._server.name} has no embedded control planes: set spec.controlPlane.external, or start the tenant "
                "controller with --control-plane KUBECONFIG of a server that has",
            )
        except Forbidden as error:
            return _unusable(
                "Forbidden",
                f"{error}: run 'vcsync install' again, which updates the rights of the tenant controller",
            )
        record = msgspec.json.decode(answer, type=_Record)
        if record.phase in ("Draining", "Deleting"):
            return ControlPlane(state="Leaving", uid=record.uid, left=_left(record))
        found = ControlPlane(
            state="Present" if record.phase == "Ready" else "Creating",
            uid=record.uid,
            own_nodes=record.nodes != "virtual",
            door=_door(record),
            quota=record.quota,
            suspended=record.suspended,
            aside=record.aside,
        )
        if known or found.aside or found.state != "Present" or found.own_nodes:
            return found
        admin = await issued.kubeconfig(self._server, tenant.name)
        async with self._open(admin, tenant.name) as control_plane:
            uid = await cluster_uid(control_plane)
        endpoint = cluster_of(admin, Path("/")).server
        return msgspec.structs.replace(found, endpoint=endpoint, kube_system=uid)

    async def door(self, name: str) -> Door | None:
        """Return the limits of the requests of an external control plane that are forwarded to it, or None if none are."""
        try:
            record = msgspec.json.decode(await self._server.request("GET", _path(name)), type=_Record)
        except (KubeError, msgspec.MsgspecError):
            return None  # There is no embedded control plane, or it does not answer: limits have to wait, nothing else.
        forwarded = record.server and record.phase == "Ready"
        return _door(record) if forwarded else None

    async def why_aside(self, name: str) -> str:
        """Return why an embedded control plane is set aside; empty: it is not, or the server does not tell."""
        try:
            record = msgspec.json.decode(await self._server.request("GET", _path(name)), type=_Record)
        except (KubeError, msgspec.MsgspecError):
            return ""
        return "" if record.server else record.aside

    async def limit_requests(self, name: str, limits: dict[str, Any] | None, weight: int) -> None:
        """Set the limits of a tenant's requests (None: the defaults), and its weight.

        Raises:
            KubeError: the server refuses it or cannot be asked.
        """
        body = msgspec.json.encode({"limits": limits, "weight": weight})
        await self._server.request("PATCH", _path(name), body=body)

    async def create(self, name: str, network: NetworkSpec | None = None) -> None:
        """Create a control plane, or continue its creation.

        Args:
            name: name of the Tenant.
            network: its network `default`; None: a flat one.

        Raises:
            KubeError: the server refuses it or cannot be asked.
        """
        body = msgspec.json.encode({"name": name} if network is None else {"name": name, "network": network})
        try:
            await self._server.request("POST", issued.TENANTS, body=body)
        except AlreadyExists:
            return

    async def is_suspended(self, name: str) -> bool | None:
        """Return whether the server lets a tenant's users only read; None: it does not answer requests of that tenant.

        Raises:
            KubeError: the server cannot be asked.
        """
        try:
            answer = await self._server.request("GET", _path(name))
        except NotFound:
            return None
        return msgspec.json.decode(answer, type=_Record).suspended

    async def suspend(self, name: str, *, suspended: bool) -> None:
        """Let a tenant's users only read, or also write again.

        Raises:
            KubeError: the server refuses it or cannot be asked.
        """
        await self._server.request("PATCH", _path(name), body=msgspec.json.encode({"suspended": suspended}))

    async def set_quota(self, name: str, hard: dict[str, str] | None) -> None:
        """Set the quota of a control plane; None: it has none.

        Raises:
            KubeError: the server refuses it or cannot be asked.
        """
        await self._server.request("PATCH", _path(name), body=msgspec.json.encode({"quota": hard}))

    async def delete(self, name: str, grace: int) -> None:
        """Begin the deletion of a control plane: its credentials become invalid at once.

        Args:
            name: name of the Tenant.
            grace: seconds for which finalizers are respected.

        Raises:
            KubeError: the server refuses it or cannot be asked.
        """
        path = f"{_path(name)}?gracePeriodSeconds={grace}"
        try:
            await self._server.request("DELETE", path, timeout=FORCED_SECONDS)
        except NotFound:
            return

    def open(self, kubeconfig: bytes, name: str) -> AbstractAsyncContextManager[Client]:
        """Open a client of a control plane."""
        return self._open(kubeconfig, name)

    async def kubeconfig(self, tenant: Tenant) -> bytes:
        """Return a kubeconfig of the administrator of a Tenant's control plane.

        Raises:
            KubeError: the server refuses it or cannot be asked.
        """
        return await issued.kubeconfig(self._server, tenant.name)

    async def role_secrets(self, control_plane: Client, tenant: Tenant, root: str) -> list[dict[str, Any]]:
        """Create the roles' accounts in a control plane; return the Secrets with their kubeconfigs.

        Raises:
            KubeError: the server refuses it or cannot be asked.
        """
        await manifests.apply(control_plane, rbac.tenant_manifests())
        return await issued.role_secrets(self._server, tenant.name, root)


class ExternalControlPlanes:
    """Control planes whose administrators' kubeconfigs are in Secrets of the meta cluster.

    Args:
        meta: client of the meta cluster.
        open_client: opens clients of control planes.
    """

    def __init__(self, meta: Client, open_client: OpenClient) -> None:
        self._meta = meta
        self._open = open_client

    async def find(self, tenant: Tenant) -> ControlPlane:
        """Look at a Tenant's control plane. One that cannot be reached has a problem.

        Raises:
            KubeError: the meta cluster cannot be asked.
        """
        try:
            secret, content = await self._read(tenant)
        except _UnusableError as error:
            return ControlPlane(state="Unknown", problem=error.problem)
        try:
            cluster = cluster_of(content, Path("/"))
            async with self._open(content, tenant.name) as control_plane:
                uid = await cluster_uid(control_plane)
        except (CredentialsError, Unauthorized, Forbidden) as error:
            where = _where(tenant)
            return _unusable(
                "KubeconfigRefused", f"{error}: put an administrator's kubeconfig into Secret {where}"
            )
        except Unreachable as error:
            return _unusable(
                "ControlPlaneUnreachable",
                f"{error}: is the server up, and its address in the kubeconfig right?",
            )
        except KubeError as error:
            return _unusable("ControlPlaneFails", str(error))
        return ControlPlane(
            state="Present",
            uid=uid,
            kube_system=uid,
            endpoint=cluster.server,
            kubeconfig_version=f"{secret.uid}/{secret.resource_version}",
        )

    def open(self, kubeconfig: bytes, name: str) -> AbstractAsyncContextManager[Client]:
        """Open a client of a control plane."""
        return self._open(kubeconfig, name)

    async def kubeconfig(self, tenant: Tenant) -> bytes:
        """Return the kubeconfig of the administrator of a Tenant's control plane.

        Raises:
            CredentialsError: there is no usable one.
            KubeError: the meta cluster cannot be asked.
        """
        try:
            return (await self._read(tenant))[1]
        except _UnusableError as error:
            raise CredentialsError(error.problem.message) from error

    async def role_secrets(self, control_plane: Client, tenant: Tenant, root: str) -> list[dict[str, Any]]:
        """Create the roles' accounts in a control plane; return the Secrets with their kubeconfigs.

        Raises:
            KubeError: a cluster refuses it or cannot be asked.
        """
        cluster: Cluster = cluster_of(await self.kubeconfig(tenant), Path("/"))
        return await tenant_secrets(control_plane, tenant.name, root, cluster, _note)

    async def _read(self, tenant: Tenant) -> tuple[Envelope, bytes]:
        """Return the Secret with the kubeconfig, and the kubeconfig.

        Raises:
            _UnusableError: there is no usable one.
            KubeError: the meta cluster cannot be asked.
        """
        ref, where = _reference(tenant), _where(tenant)
        try:
            secret = await self._meta.get(SECRETS, ref.name, ref.namespace)
        except NotFound as error:
            command = (
                f"kubectl create secret generic -n {ref.namespace} {ref.name} --from-file={ref.key}=FILE"
            )
            raise _UnusableError("NoKubeconfig", f"there is no Secret {where}: {command}") from error
        except Forbidden as error:
            raise _UnusableError(
                "SecretForbidden",
                f"the tenant controller may not read Secret {where}: move it to namespace vcsync, or let the ServiceAccount "
                "vcsync-system/vcsync-tenants get it",
            ) from error
        text = msgspec.json.decode(secret.rest or b"{}", type=_Secret).data.get(ref.key)
        if not text:
            raise _UnusableError("NoKubeconfig", f"Secret {where} has no key {ref.key}: add the kubeconfig")
        try:
            content = base64.b64decode(text, validate=True)
            field = outside_field(content)
        except (binascii.Error, CredentialsError) as error:
            raise _UnusableError("InvalidKubeconfig", f"Secret {where}, key {ref.key}: {error}") from error
        if field:
            raise _UnusableError(
                "InvalidKubeconfig",
                f"Secret {where}, key {ref.key}: field {field} names a file or a program of another machine; inline it "
                "(kubectl config view --raw --flatten)",
            )
        return secret, content


class _UnusableError(Exception):
    """There is no usable kubeconfig."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(reason, message)


def _reference(tenant: Tenant) -> TenantSecretRef:
    wanted = tenant.spec.control_plane
    if wanted is None or wanted.external is None:
        raise ValueError(f"Tenant {tenant.name} has no external control plane")
    return wanted.external.kubeconfig_secret_ref


def _where(tenant: Tenant) -> str:
    ref = _reference(tenant)
    return f"{ref.namespace}/{ref.name}"


def _unusable(reason: str, message: str) -> ControlPlane:
    return ControlPlane(state="Unknown", problem=Problem(reason, message))


def _left(record: _Record) -> str:
    """Return a line that describes why the deletion of a control plane is not complete."""
    if not record.left.held:
        return "its objects are being deleted"
    held = ", ".join(f"{finalizer} ({count})" for finalizer, count in record.left.held)
    return f"waits until {record.deadline} for the programs that put these finalizers on objects: {held}"


def _door(record: _Record) -> Door:
    return Door(record.limits, record.limits_in_force, record.weight, record.limits_reached)


def _path(name: str) -> str:
    return f"{issued.TENANTS}/{quote(name)}"


def _note(text: str) -> None:
    _log.info("registration", note=text)
