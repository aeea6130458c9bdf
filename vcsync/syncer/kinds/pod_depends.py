"""What must stand in the super cluster before a Pod is created there, so that it starts instead of failing and retrying."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vcsync.api import names
from vcsync.kube.resources import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, Resource
from vcsync.syncer.kinds import configmap, secret
from vcsync.syncer.kinds.plan import Dependency, TenantContext, View, Wait

Json = Mapping[str, Any]


def dependencies_wait(namespace: str, spec: Json, context: TenantContext, view: View) -> Wait | None:
    """Why a Pod cannot be created yet; None if all it needs is there.

    It waits for its ServiceAccount, and for the Secrets and ConfigMaps it names that the tenant has and the super cluster
    does not have yet. What the tenant does not have either is left to the kubelet to report, as in any cluster.

    Args:
        namespace: the tenant's namespace.
        spec: the tenant Pod's spec.
        context: the tenant.
        view: the caches.
    """
    runtime_class = spec.get("runtimeClassName")
    if runtime_class and runtime_class not in context.runtime_classes:
        # Every change of a RuntimeClass makes a new context, with which all is looked at again.
        return Wait(f"the tenant has no RuntimeClass {runtime_class}")
    super_namespace = names.super_namespace(context.key, namespace)
    missing: list[Dependency] = []
    account = spec.get("serviceAccountName") or "default"
    if view.super(SERVICE_ACCOUNTS, super_namespace, account) is None:
        missing.append(Dependency("super", SERVICE_ACCOUNTS, super_namespace, account))
    for resource, name in set(_references(spec)):
        super_name = configmap.super_name(name) if resource is CONFIG_MAPS else secret.super_name(name)
        if (
            super_name is not None
            and view.super(resource, super_namespace, super_name) is None
            and view.tenant(resource, namespace, name) is not None
        ):
            missing.append(Dependency("super", resource, super_namespace, super_name))
    if not missing:
        return None
    missing.sort(key=lambda dependency: (dependency.resource.kind, dependency.name))
    listed = ", ".join(f"{dependency.resource.kind} {dependency.name}" for dependency in missing)
    return Wait(f"waits in super cluster {context.super_id} for {listed}", tuple(missing))


def _references(spec: Json) -> Iterator[tuple[Resource, str]]:
    """The Secrets and ConfigMaps a Pod needs: (resource, tenant's name), optional ones left out."""
    for reference in spec.get("imagePullSecrets") or ():
        if name := reference.get("name"):
            yield SECRETS, name
    for volume in spec.get("volumes") or ():
        yield from _in_volume(volume)
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            yield from _in_container(container)


def _in_volume(volume: Json) -> Iterator[tuple[Resource, str]]:
    source = volume.get("secret")
    if source and not source.get("optional") and (name := source.get("secretName")):
        yield SECRETS, name
    yield from _required(CONFIG_MAPS, volume.get("configMap"))
    for projection in (volume.get("projected") or {}).get("sources") or ():
        yield from _required(SECRETS, projection.get("secret"))
        yield from _required(CONFIG_MAPS, projection.get("configMap"))


def _in_container(container: Json) -> Iterator[tuple[Resource, str]]:
    for source in container.get("envFrom") or ():
        yield from _required(SECRETS, source.get("secretRef"))
        yield from _required(CONFIG_MAPS, source.get("configMapRef"))
    for entry in container.get("env") or ():
        if value := entry.get("valueFrom"):
            yield from _required(SECRETS, value.get("secretKeyRef"))
            yield from _required(CONFIG_MAPS, value.get("configMapKeyRef"))


def _required(resource: Resource, reference: Json | None) -> Iterator[tuple[Resource, str]]:
    if reference and not reference.get("optional") and (name := reference.get("name")):
        yield resource, name
