"""The objects that must exist in the super cluster before a Pod is created there, so that it starts without retries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vcsync.api import names
from vcsync.kube.resources import (
    CONFIG_MAPS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from vcsync.objects.envelope import untyped
from vcsync.syncer.kinds import configmap, pod_convert, secret
from vcsync.syncer.kinds.plan import Dependency, TenantContext, View, Wait
from vcsync.syncer.kinds.runtime import runtime_class_dependency
from vcsync.syncer.kinds.service import has_address

Json = Mapping[str, Any]


def dependencies_wait(
    namespace: str, labels: Mapping[str, str], spec: Json, context: TenantContext, view: View
) -> Wait | None:
    """Return a Wait for the objects that a Pod needs and the super cluster lacks; None if it has all of them.

    The Pod waits for its ServiceAccount, and for the Secrets and ConfigMaps that it names, if they exist in the tenant. If
    one does not exist in the tenant, the kubelet reports that, as in any cluster. A Pod that uses cluster DNS also
    waits for the tenant's name server, since its dnsPolicy cannot be changed later. For its claims see `pod_claims`.

    Args:
        namespace: the tenant's namespace.
        labels: the tenant Pod's labels.
        spec: the tenant Pod's spec.
        context: the tenant's settings.
        view: the caches.
    """
    runtime_class = spec.get("runtimeClassName")
    if runtime_class and runtime_class not in context.runtime_classes:
        return Wait(
            f"the tenant has no RuntimeClass {runtime_class}", (runtime_class_dependency(runtime_class),)
        )
    super_namespace = names.super_namespace(context.key, namespace)
    missing: list[Dependency] = []
    if pod_convert.uses_cluster_dns(spec, labels) and _name_server_is_to_come(context, view):
        dns_namespace = names.super_namespace(context.key, names.TENANT_DNS_NAMESPACE)
        missing.append(Dependency("super", SERVICES, dns_namespace, names.TENANT_DNS_SERVICE))
    account = spec.get("serviceAccountName") or "default"
    if view.super(SERVICE_ACCOUNTS, super_namespace, account) is None:
        missing.append(Dependency("super", SERVICE_ACCOUNTS, super_namespace, account))
    for resource, name in dict.fromkeys(_references(spec)):
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


def _name_server_is_to_come(context: TenantContext, view: View) -> bool:
    """Return whether the tenant has a DNS Service that gets an address here, but has none yet."""
    if context.dns_nameserver:
        return False
    namespace, name = names.TENANT_DNS_NAMESPACE, names.TENANT_DNS_SERVICE
    service = view.tenant(SERVICES, namespace, name)
    return service is not None and not service.deleting and has_address(untyped(service.spec))


def _references(spec: Json) -> Iterator[tuple[Resource, str]]:
    """Yield the Secrets and ConfigMaps that a Pod needs, except for optional ones, as (resource, tenant's name)."""
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
