"""The limit of devices by class, in the ResourceQuota of a super namespace. Pure.

Only the super cluster's API server can count the devices that claims ask for. A quota names each class, so the class of a
claim is added to it before the first copy of a claim of that class is created.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from vcsync.api import names
from vcsync.kube.resources import RESOURCE_QUOTAS
from vcsync.objects.envelope import decode
from vcsync.syncer.kinds.plan import Dependency, Patch, Plan, TenantContext, View, Wait

_SUFFIX: Final = ".deviceclass.resource.k8s.io/devices"
"""End of the name of a quota's resource, after the name of a DeviceClass (core/v1 ResourceQuota)."""
_LOOK_SECONDS: Final = 5.0
"""Seconds until the quota is looked at again, if no change of it is seen."""


class _Quota(Struct, gc=False):
    hard: dict[str, str] | None = None


def limits(hard: Iterable[str], devices: str) -> dict[str, str]:
    """Return the limits of the classes that a quota names already.

    Args:
        hard: the resources that the quota limits.
        devices: the limit for each class; "" for none.
    """
    return {resource: devices for resource in hard if resource.endswith(_SUFFIX)} if devices else {}


def limited(namespace: str, classes: Iterable[str], context: TenantContext, view: View) -> Plan | None:
    """Return the plan that limits the devices of some classes; None if the API server of the super cluster does so already.

    Args:
        namespace: the tenant's namespace.
        classes: names of DeviceClasses.
        context: the tenant's settings.
        view: the caches.
    """
    placement = view.placement(namespace)
    if placement is None or not placement.devices:
        return None
    there = names.super_namespace(context.key, namespace)
    quota = view.super(RESOURCE_QUOTAS, there, names.SUPER_QUOTA_NAME)
    resources = [f"{name}{_SUFFIX}" for name in classes]
    stated = _hard(quota.spec) if quota is not None else {}
    # Admission counts by the status, which the super cluster's controller writes.
    enforced = _hard(quota.status) if quota is not None else {}
    if all(each in stated and each in enforced for each in resources):
        return None
    wait = Wait(
        "waits for the limit of its devices",
        (Dependency("super", RESOURCE_QUOTAS, there, names.SUPER_QUOTA_NAME),),
        _LOOK_SECONDS,
    )
    missing = {each: placement.devices for each in resources if each not in stated}
    if quota is None or not missing:
        return Plan(wait=wait)
    body = {"metadata": {"uid": quota.uid}, "spec": {"hard": missing}}
    return Plan((Patch("super", RESOURCE_QUOTAS, there, quota.name, quota.uid, body),), wait)


def _hard(part: bytes) -> dict[str, str]:
    return (decode(part, _Quota).hard or {}) if part else {}
