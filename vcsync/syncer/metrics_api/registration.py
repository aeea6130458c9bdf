"""Registers a syncer as the server of the resource metrics API in a tenant's control plane."""

import base64
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from vcsync.api import names
from vcsync.api.rbac import PART_OF, PROJECT
from vcsync.kube.client import Client
from vcsync.kube.errors import Forbidden, NotFound
from vcsync.kube.resources import API_SERVICES, SERVICES
from vcsync.objects.envelope import Envelope, decode
from vcsync.resourcemetrics.version import GROUP, PRIORITY, VERSION

NAME, SERVICE = names.METRICS_API_SERVICE, names.METRICS_SERVICE
SERVER_NAME: Final = f"{SERVICE}.{names.SYSTEM_NAMESPACE}.svc"
"""Name that kube-apiserver expects in the certificate."""
PUBLISHER: Final = names.METRICS_PUBLISHER
FIELD_MANAGER: Final = "vcsync-metrics"
TAKEOVER: Final = timedelta(seconds=30)
"""Time for which another syncer's registration must have been unavailable before this one replaces it."""


class _Condition(Struct, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: datetime | None = None


class _Status(Struct):
    conditions: tuple[_Condition, ...] | None = None


OURS: Final = "served by this syncer"
NOT_PERMITTED: Final = "not permitted: run 'vcsync tenant metrics NAME --kubeconfig FILE'"
OF_TENANT: Final = f"the tenant has a server of its own: APIService {NAME}"
OF_CONTROL_PLANE: Final = "served by the embedded control plane"


def may_register(found: Envelope | None, super_id: str, now: datetime) -> bool:
    """Tell whether a syncer registers itself.

    Args:
        found: The APIService that exists.
        super_id: Id of the syncer's super cluster.
        now: The time.
    """
    if found is None:
        return True
    if found.labels.get(PART_OF) != PROJECT:
        return False
    return found.annotations.get(PUBLISHER) == super_id or _is_unavailable(found, now)


def _is_unavailable(found: Envelope, now: datetime) -> bool:
    try:
        conditions = decode(found.status or b"{}", _Status).conditions or ()
    except msgspec.MsgspecError:
        return False  # The tenant's server says something else than kube-apiserver.
    for each in conditions:
        since = each.last_transition_time
        if (each.type, each.status) == ("Available", "False") and since is not None and since.tzinfo:
            return now - since >= TAKEOVER
    return False


@dataclass(frozen=True, slots=True)
class Place:
    """Address at which a syncer serves the API.

    Attributes:
        super_id: Id of its super cluster.
        address: IP address at which kube-apiserver reaches it.
        port: Its port for the tenant.
        certificate: Its self-signed certificate, as PEM. None: the operator's, which is not verified, as those of kubelets.
    """

    super_id: str
    address: str
    port: int
    certificate: bytes | None


def manifests(place: Place) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the Service and the APIService of a syncer."""
    labels = {PART_OF: PROJECT}
    service = {
        "metadata": {"name": SERVICE, "namespace": names.SYSTEM_NAMESPACE, "labels": labels},
        "spec": {"type": "ExternalName", "externalName": place.address},
    }
    trust: Mapping[str, Any] = {"insecureSkipTLSVerify": True}
    if place.certificate is not None:
        trust = {"caBundle": base64.b64encode(place.certificate).decode()}
    api_service = {
        "metadata": {"name": NAME, "labels": labels, "annotations": {PUBLISHER: place.super_id}},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": PRIORITY,
            "versionPriority": PRIORITY,
            "service": {"namespace": names.SYSTEM_NAMESPACE, "name": SERVICE, "port": place.port},
            **trust,
        },
    }
    return service, api_service


async def _is_embedded(client: Client) -> bool:
    """Tell whether a control plane is an embedded one, which serves the API itself."""
    return str((await client.version()).get("gitVersion", "")).endswith(f"+{names.BUILD}")


async def register(client: Client, place: Place, now: datetime) -> str:
    """Register a syncer, unless the tenant or another syncer has registered a server, or the control plane is one.

    `vcsync tenant metrics` gives the permission. Without it nothing is registered.

    Args:
        client: Client of the tenant's control plane.
        place: Where the syncer serves.
        now: The time.

    Returns:
        Who serves the API, or why nobody does, in words.

    Raises:
        KubeError: The control plane refuses, or cannot be reached.
    """
    try:
        found = await client.get(API_SERVICES, NAME)
    except NotFound:
        found = None
    except Forbidden:
        return NOT_PERMITTED
    if found is not None and not may_register(found, place.super_id, now):
        return _other_server(found)
    if await _is_embedded(client):
        return OF_CONTROL_PLANE
    service, api_service = manifests(place)
    await client.patch(
        SERVICES,
        SERVICE,
        service,
        names.SYSTEM_NAMESPACE,
        kind="apply",
        force=True,
        field_manager=FIELD_MANAGER,
    )
    await client.patch(API_SERVICES, NAME, api_service, kind="apply", force=True, field_manager=FIELD_MANAGER)
    return OURS


def _other_server(found: Envelope) -> str:
    if found.labels.get(PART_OF) != PROJECT:
        return OF_TENANT
    return f"served by the syncer of super cluster {found.annotations.get(PUBLISHER, '')}"


async def unregister(client: Client, super_id: str) -> None:
    """Remove the registration of a syncer. One that leads nowhere would delay the deletion of namespaces in the tenant.

    Args:
        client: Client of the tenant's control plane.
        super_id: Id of the syncer's super cluster.

    Raises:
        KubeError: The control plane refuses, or cannot be reached.
    """
    with suppress(NotFound, Forbidden):
        found = await client.get(API_SERVICES, NAME)
        if found.labels.get(PART_OF) == PROJECT and found.annotations.get(PUBLISHER) == super_id:
            await client.delete(API_SERVICES, NAME, uid=found.uid)
