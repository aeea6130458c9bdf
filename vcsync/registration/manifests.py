"""Applies manifests to a cluster, and deletes their objects."""

import asyncio
import base64
from collections.abc import Iterable, Mapping
from typing import Any

from vcsync.api.resources import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from vcsync.kube import resources
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope
from vcsync.registration.errors import RegistrationError

FIELD_MANAGER = "vcsync/install"
GONE_SECONDS = 30.0

_RESOURCES = {
    (resource.api_version, resource.kind): resource
    for resource in (
        resources.NAMESPACES,
        resources.SERVICE_ACCOUNTS,
        resources.SECRETS,
        resources.CONFIG_MAPS,
        resources.SERVICES,
        resources.DEPLOYMENTS,
        resources.RESOURCE_QUOTAS,
        resources.SERVICE_CIDRS,
        resources.ROLES,
        resources.ROLE_BINDINGS,
        resources.CLUSTER_ROLES,
        resources.CLUSTER_ROLE_BINDINGS,
        resources.CUSTOM_RESOURCE_DEFINITIONS,
        MUTATING_WEBHOOK_CONFIGURATIONS,
        VALIDATING_ADMISSION_POLICIES,
        VALIDATING_ADMISSION_POLICY_BINDINGS,
    )
}

Manifest = Mapping[str, Any]


def resource_of(manifest: Manifest) -> Resource:
    """Return the resource of a manifest's object."""
    return _RESOURCES[manifest["apiVersion"], manifest["kind"]]


async def apply(client: Client, manifests: Iterable[Manifest]) -> None:
    """Apply the manifests (server-side apply; fields of others stay).

    Raises:
        KubeError: The cluster refused one; earlier ones are applied.
    """
    for manifest in manifests:
        applied = await _apply(client, manifest)
        if applied.deleting and resource_of(manifest) == resources.NAMESPACES:
            await _wait_gone(client, resources.NAMESPACES, applied.name)
            await _apply(client, manifest)


async def _apply(client: Client, manifest: Manifest) -> Envelope:
    metadata = manifest["metadata"]
    return await client.patch(
        resource_of(manifest),
        metadata["name"],
        manifest,
        metadata.get("namespace", ""),
        kind="apply",
        force=True,
        field_manager=FIELD_MANAGER,
    )


async def _wait_gone(client: Client, resource: Resource, name: str) -> None:
    """Wait until an object that is being deleted is gone: nothing can be created in such a namespace.

    Raises:
        RegistrationError: It still exists after half a minute.
    """
    try:
        async with asyncio.timeout(GONE_SECONDS):
            while True:
                await client.get(resource, name)
                await asyncio.sleep(0.25)
    except NotFound:
        return
    except TimeoutError:
        raise RegistrationError(
            f"{client.name}: {resource.kind} {name} is being deleted and still there after {GONE_SECONDS:.0f} s; "
            f"see what holds it (kubectl get {resource.plural} {name} -o yaml) and try again"
        ) from None


async def delete(client: Client, manifests: Iterable[Manifest]) -> None:
    """Delete the objects of the manifests in reverse order; missing ones are ignored."""
    for manifest in reversed(list(manifests)):
        metadata = manifest["metadata"]
        await delete_if_there(client, resource_of(manifest), metadata["name"], metadata.get("namespace", ""))


async def delete_marked(client: Client, manifests: Iterable[Manifest], label: str, value: str) -> list[str]:
    """Delete those objects of the manifests that have a label, in reverse order; missing ones are ignored.

    Returns:
        The other objects, which stay, as ``Kind [namespace/]name``.

    Raises:
        KubeError: The cluster refused it.
    """
    left = []
    for manifest in reversed(list(manifests)):
        metadata, resource = manifest["metadata"], resource_of(manifest)
        name, namespace = metadata["name"], metadata.get("namespace", "")
        try:
            found = await client.get(resource, name, namespace)
            if found.labels.get(label) == value:
                await client.delete(resource, name, namespace, uid=found.uid)
            else:
                left.append(f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}")
        except NotFound:
            continue
    return sorted(left)


async def delete_if_there(client: Client, resource: Resource, name: str, namespace: str = "") -> bool:
    """Delete an object.

    Returns:
        False if there was none.
    """
    try:
        await client.delete(resource, name, namespace)
    except NotFound:
        return False
    return True


def secret(namespace: str, name: str, key: str, content: bytes) -> dict[str, Any]:
    """Return a Secret with one entry."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "Opaque",
        "data": {key: base64.b64encode(content).decode()},
    }


def namespace(name: str, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a Namespace."""
    metadata: dict[str, Any] = {"name": name}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
