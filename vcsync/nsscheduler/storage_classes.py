"""Publishes StorageClasses of super clusters to a tenant: the union over the pool, each with the super clusters that have it.

The namespace scheduler is their only writer, because a syncer sees one super cluster only. A class without vcsync's label
and provisioner belongs to the tenant and is not touched.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import structlog

from vcsync.api import names
from vcsync.api.specs import PublishedStorageClass
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, Conflict, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import STORAGE_CLASSES
from vcsync.objects.envelope import Envelope, untyped
from vcsync.scheduling.snapshot import SuperView

HIDDEN = "Hidden"
"""Event reason: the tenant has a class of its own with the name of a published one."""
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_FIXED = (
    "provisioner",
    "reclaimPolicy",
    "volumeBindingMode",
    "parameters",
    "mountOptions",
    "allowedTopologies",
)
"""Fields that cannot change after the creation, or that published classes do not have."""

_log = structlog.get_logger(__name__)

Body = dict[str, Any]


def wanted(views: Iterable[SuperView]) -> dict[str, Body]:
    """Return the StorageClasses to publish, by name.

    A super cluster that is lost counts, since its volumes remain. If two super clusters differ, the cautious value counts.
    """
    classes: dict[str, dict[str, PublishedStorageClass]] = {}
    for view in views:
        for each in view.storage_classes:
            classes.setdefault(each.name, {})[view.id] = each
    return {name: _body(name, by_super) for name, by_super in sorted(classes.items())}


def _body(name: str, by_super: Mapping[str, PublishedStorageClass]) -> Body:
    all_of_them = by_super.values()
    annotations = {names.PUBLISHED_BY: ",".join(sorted(by_super))}
    if any(each.default for each in all_of_them):
        annotations[_DEFAULT] = "true"
    retains = all(each.reclaim_policy == "Retain" for each in all_of_them)
    return {
        "apiVersion": STORAGE_CLASSES.api_version,
        "kind": STORAGE_CLASSES.kind,
        "metadata": {
            "name": name,
            "labels": {names.SUPER_PUBLIC: names.TRUE},
            "annotations": annotations,
        },
        "provisioner": names.PROVISIONER,
        "reclaimPolicy": "Retain" if retains else "Delete",
        # The first Pod decides on the super cluster, whatever the operator's class says.
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": all(each.allow_volume_expansion for each in all_of_them),
    }


def is_ours(found: Envelope) -> bool:
    """Return whether a class was published by vcsync: the provisioner of a class cannot change."""
    return (
        found.labels.get(names.SUPER_PUBLIC) == names.TRUE
        and untyped(found.rest).get("provisioner") == names.PROVISIONER
    )


def difference(found: Envelope, body: Body) -> Body | None:
    """Return the merge patch that makes a class as wanted, empty if it is; None if it must be created again.

    Whether it is the default is up to the tenant after its creation.
    """
    rest = untyped(found.rest)
    if any(rest.get(field) != body.get(field) for field in _FIXED if rest.get(field) or body.get(field)):
        return None
    patch: Body = {}
    published_by = body["metadata"]["annotations"][names.PUBLISHED_BY]
    if found.annotations.get(names.PUBLISHED_BY) != published_by:
        patch["metadata"] = {"annotations": {names.PUBLISHED_BY: published_by}}
    if bool(rest.get("allowVolumeExpansion")) != body["allowVolumeExpansion"]:
        patch["allowVolumeExpansion"] = body["allowVolumeExpansion"]
    return patch


async def publish(
    client: Client,
    cache: Reflector,
    views: Iterable[SuperView],
    hidden: Callable[[Envelope], None],
) -> None:
    """Make a tenant's published classes as wanted. Each step may be repeated.

    Nothing is deleted while the pool is empty: it may not have been read, and a class without super clusters harms nobody.

    Args:
        client: the tenant's control plane.
        cache: caches the tenant's classes with vcsync's label.
        views: the pool.
        hidden: called with each class of the tenant that has the name of a published one.

    Raises:
        KubeError: the control plane did not answer, or refused.
    """
    pool = list(views)
    if not cache.synced or not pool:
        return
    classes = wanted(pool)
    for found in list(cache.cache.items()):
        patch = difference(found, classes[found.name]) if found.name in classes and is_ours(found) else {}
        if is_ours(found) and (found.name not in classes or patch is None):
            with suppress(NotFound, Conflict):
                await client.delete(STORAGE_CLASSES, found.name, uid=found.uid)
            cache.observe_gone("", found.name, found.uid)
        elif patch:
            patch["metadata"] = {**patch.get("metadata", {}), "uid": found.uid}
            with suppress(NotFound, Conflict):
                cache.observe(await client.patch(STORAGE_CLASSES, found.name, patch))
    for name, body in classes.items():
        if cache.cache.get("", name) is None:
            await _create(client, cache, name, body, hidden)


async def _create(
    client: Client, cache: Reflector, name: str, body: Body, hidden: Callable[[Envelope], None]
) -> None:
    try:
        cache.observe(await client.create(STORAGE_CLASSES, body))
    except AlreadyExists:
        with suppress(NotFound):
            found = await client.get(STORAGE_CLASSES, name)
            if not is_ours(found):
                _log.info("published class hidden by the tenant's own", storage_class=name)
                hidden(found)
