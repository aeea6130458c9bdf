"""Ownership of objects in a super cluster, and the labels and annotations that are copied between the two sides."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Final

import msgspec

from vcsync.api import names
from vcsync.kube.resources import NAMESPACES, Resource
from vcsync.objects.envelope import Envelope
from vcsync.objects.text_cache import cache_short_texts
from vcsync.syncer.kinds import keys
from vcsync.syncer.kinds.plan import (
    EMPTY,
    Action,
    Delete,
    Dependency,
    Notify,
    Patch,
    Plan,
    TenantContext,
    View,
    Wait,
)

NAME_TAKEN = "NameTaken"
"""Event reason: the super cluster has an object of that name which vcsync did not create."""
RESERVED_NAME = "ReservedName"
"""Event reason: the tenant uses a name that the syncer needs for itself."""
RESERVED_NAMES = "ReservedNames"
"""Event reason: the tenant has set labels, annotations or finalizers that have a meaning only if vcsync sets them."""
POLICY_REFUSED = "PolicyRefused"
"""Event and condition reason: the operator's policy does not allow this."""
RETRY_SECONDS = 60.0
"""Seconds that an item waits for a change that no watch reports, such as the deletion of a foreign object."""

_MAX_NAMES_REPORTED = 8

_IN_TENANTS = frozenset(
    {
        names.SLICE,
        names.PLACEMENTS,
        names.DEFAULT_QUOTA,
        names.WITHOUT_DEFAULT_QUOTA,
        names.SUPER_CLUSTER,
        names.IGNORE_SYNC,
        names.DISABLE_DNS_POLICY_MUTATION,
        names.TRANSPARENT_CLUSTER_IP,
        names.NETWORK,
        names.COPY_FINALIZER,
    }
)
_DOMAINS_IN_TENANTS = (
    names.PLACEMENT_DOMAIN,
    names.INGRESS_DOMAIN,
    names.NODE_PORTS_DOMAIN,
    names.DISRUPTIONS_DOMAIN,
    names.PROVISIONING_DOMAIN,
    names.REFUSAL_DOMAIN,
)
"""Keys and domains of vcsync that are valid on tenants' objects: tenants may set them, or vcsync sets them."""


class Identity(Enum):
    """The relation of a super object to a tenant object of the same name."""

    OURS = "it is the copy of this object"
    OUTDATED = "it is the copy of an earlier object of this tenant with the same name"
    FOREIGN = "it does not belong to this tenant"


def identify(v: Envelope, p: Envelope, context: TenantContext) -> Identity:
    """Apply the identity rule: p is v's copy only if the annotations `tenancy.x-k8s.io/uid` and `/cluster` match."""
    if p.annotations.get(names.CLUSTER) != context.key or belongs_elsewhere(
        p, context.key, v.namespace or v.name
    ):
        return Identity.FOREIGN
    return Identity.OURS if p.annotations.get(names.UID) == v.uid else Identity.OUTDATED


def belongs_elsewhere(p: Envelope, key: str, namespace: str) -> bool:
    """Return whether a super object belongs to another namespace whose super namespace has the same hashed name.

    Args:
        p: the super cluster's object, or its namespace.
        key: cluster key of the tenant.
        namespace: the tenant's namespace.
    """
    owner, stated = p.annotations.get(names.CLUSTER, ""), p.annotations.get(names.NAMESPACE, "")
    if not owner or not stated or (owner, stated) == (key, namespace):
        return False
    return names.super_namespace(owner, stated) == (p.namespace or p.name)


# --- Keys that tenants may not use ------------------------------------------------------------------------


def reserved_by_tenant(v: Envelope) -> list[str]:
    """Return labels, annotations and finalizers of vcsync's domains that have no effect on a tenant's object.

    Each is a text like `label KEY`. At most `_MAX_NAMES_REPORTED` are returned.
    """
    found = [
        f"{part} {key}"
        for part, used in (("label", v.labels), ("annotation", v.annotations), ("finalizer", v.finalizers))
        for key in sorted(used)
        if _is_reserved(key)
    ]
    return found[:_MAX_NAMES_REPORTED]


@cache_short_texts(16384, 320)
def _is_reserved(key: str) -> bool:
    domain = key.partition("/")[0]
    return (
        keys.within(domain, names.OWN_DOMAINS)
        and key not in _IN_TENANTS
        and not keys.within(domain, _DOMAINS_IN_TENANTS)
    )


# --- Keys that vcsync adds -------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _own_labels(vc_name: str, vc_namespace: str) -> dict[str, str]:
    labels = {names.CONTROLLED: names.TRUE}
    # An object name is a valid label value unless it is too long.
    if len(vc_name) <= names.MAX_LABEL_LENGTH:
        labels[names.VC_NAME] = vc_name
    if len(vc_namespace) <= names.MAX_LABEL_LENGTH:
        labels[names.VC_NAMESPACE] = vc_namespace
    return labels


def own_labels(context: TenantContext) -> dict[str, str]:
    """Return the labels of every super object of this tenant. The result is shared and must not be changed."""
    return _own_labels(context.vc_name, context.vc_namespace)


def own_annotations(v: Envelope, context: TenantContext) -> dict[str, str]:
    """Return the annotations that identify the owner of a super object."""
    return {
        names.CLUSTER: context.key,
        names.UID: v.uid,
        names.NAMESPACE: v.namespace,
        names.VC_NAME: context.vc_name,
        names.VC_NAMESPACE: context.vc_namespace,
    }


def desired_labels(resource: Resource, v: Envelope, context: TenantContext) -> dict[str, str]:
    """Return the labels that a super object should have, besides those of the super cluster."""
    return keys.copied_labels(v.labels, resource, context) | own_labels(context)


def desired_annotations(resource: Resource, v: Envelope, context: TenantContext) -> dict[str, str]:
    """Return the annotations that a super object should have, besides those of the super cluster.

    They record which of the tenant's annotations were copied, and which were left out.
    """
    copied = keys.copied_annotations(v.annotations, resource, context)
    wanted = copied | own_annotations(v, context)
    wanted[names.COPIED_ANNOTATIONS] = keys.record(copied)
    if text := keys.left_out(v, resource, context):
        wanted[names.LEFT_OUT] = text
    return wanted


def super_metadata(
    resource: Resource, v: Envelope, context: TenantContext, *, name: str = ""
) -> dict[str, Any]:
    """Return `metadata` of the super object to create for a namespaced tenant object.

    The tenant's ownerReferences become an annotation, since the super cluster's garbage collector would not find the
    owners and would delete the object.
    """
    annotations = desired_annotations(resource, v, context)
    if v.owners:
        annotations[names.OWNER_REFERENCES] = _owners_text(v)
    return {
        "name": name or v.name,
        "namespace": names.super_namespace(context.key, v.namespace),
        "labels": desired_labels(resource, v, context),
        "annotations": annotations,
    }


def _owners_text(v: Envelope) -> str:
    owners = [
        {key: value for key, value in msgspec.to_builtins(owner).items() if value is not None}
        for owner in v.owners
    ]
    return msgspec.json.encode(owners).decode()


# --- Comparison ------------------------------------------------------------------------------------------


def map_patch(
    desired: Mapping[str, str], actual: Mapping[str, str], context: TenantContext
) -> dict[str, str | None]:
    """Return the merge patch of a super object's labels or annotations; empty if they are as desired.

    Keys outside of `desired` are removed, except for those that `keys.is_ignored` leaves to the super cluster.
    """
    patch = _different(desired, actual)
    for key in actual:
        if key not in desired and (
            not keys.is_ignored(key, context) or key.startswith(names.WITHHELD_PREFIX)
        ):
            patch[key] = None
    return patch


def _different(desired: Mapping[str, str], actual: Mapping[str, str]) -> dict[str, str | None]:
    get = actual.get
    return {key: value for key, value in desired.items() if get(key) != value}


def metadata_patch(
    resource: Resource,
    v: Envelope,
    p: Envelope,
    context: TenantContext,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the difference of labels and annotations, as `metadata` of a merge patch; empty if there is none.

    A copy records its annotations of the tenant. Others belong to the super cluster, and so do labels that programs there obey.
    A copy without that record was made when all keys were copied but for those of `keys.is_ignored`, so it loses all others.

    Args:
        resource: the resource of both objects.
        v: the tenant's object.
        p: the super cluster's object.
        context: the tenant's settings.
        labels: the labels that p should have; None for `desired_labels`.
        annotations: the annotations that p should have; None for `desired_annotations`.
    """
    wanted_labels = desired_labels(resource, v, context) if labels is None else labels
    wanted = desired_annotations(resource, v, context) if annotations is None else annotations
    if names.COPIED_ANNOTATIONS in p.annotations:
        changed_labels = map_patch(wanted_labels, p.labels, context)
        for key in [key for key, value in changed_labels.items() if value is None]:
            if not keys.is_withheld(key, resource, context):
                continue
            # Without the label's other key, the copy was made when the label was not withheld.
            if key not in v.labels or keys.renamed(key) in p.labels:
                del changed_labels[key]
        changed = _different(wanted, p.annotations)
        gone = [*keys.recorded(p.annotations), names.LEFT_OUT]
        changed.update((key, None) for key in gone if key in p.annotations and key not in wanted)
    else:
        changed_labels = map_patch(wanted_labels, p.labels, context)
        changed = map_patch(wanted, p.annotations, context)
        if not changed_labels and changed == _NOTHING_COPIED:
            changed = {}  # the record alone is not worth a write
    patch: dict[str, Any] = {}
    if changed_labels:
        patch["labels"] = changed_labels
    if changed:
        patch["annotations"] = changed
    return patch


_NOTHING_COPIED: Final = {names.COPIED_ANNOTATIONS: keys.record(())}


_TRANSPARENCY = names.TRANSPARENT_CLUSTER_IP.partition("/")[0]


_WRITTEN_BY_KINDS = frozenset({names.TRANSPARENT_CLUSTER_IP})
"""Keys that a kind writes by its own rule."""


def upward_metadata(v: Envelope, p: Envelope, context: TenantContext) -> dict[str, Any]:
    """Return labels and annotations of p with transparent prefixes that differ on v, as `metadata` of a merge patch."""
    prefixes = (*context.transparent_prefixes, _TRANSPARENCY)
    patch: dict[str, Any] = {}
    if changed := _upward(p.labels, v.labels, prefixes):
        patch["labels"] = changed
    if changed := _upward(p.annotations, v.annotations, prefixes):
        patch["annotations"] = changed
    return patch


def _upward(
    theirs: Mapping[str, str], tenants: Mapping[str, str], prefixes: tuple[str, ...]
) -> dict[str, str]:
    transparent = [key for key in theirs if key.startswith(prefixes)]
    return {
        key: theirs[key]
        for key in transparent
        if tenants.get(key) != theirs[key]
        and not key.startswith(names.GROUP)
        and key not in _WRITTEN_BY_KINDS
    }


# --- Common steps of namespaced kinds --------------------------------------------------------------------


def super_patch(
    resource: Resource, p: Envelope, metadata: Mapping[str, Any], fields: Mapping[str, Any]
) -> tuple[Action, ...]:
    """Return a merge patch of a super object with UID precondition; empty if nothing differs.

    Args:
        resource: p's resource.
        p: the object.
        metadata: changed parts of `metadata` (labels, annotations).
        fields: changed top-level fields.
    """
    if not metadata and not fields:
        return ()
    body = {"metadata": {**metadata, "uid": p.uid}, **fields}
    return (Patch("super", resource, p.namespace, p.name, p.uid, body),)


def super_namespace_wait(v: Envelope, context: TenantContext, view: View) -> Wait | None:
    """Return a Wait if v's super namespace does not exist or cannot be used yet; None if it can."""
    name = names.super_namespace(context.key, v.namespace)
    namespace = view.super(NAMESPACES, "", name)
    dependency = (Dependency("super", NAMESPACES, "", name),)
    if namespace is None:
        return Wait(f"namespace {v.namespace} is not in super cluster {context.super_id} yet", dependency)
    if namespace.annotations.get(names.CLUSTER) != context.key or (
        namespace.annotations.get(names.NAMESPACE) != v.namespace
    ):
        return Wait(
            f"super cluster {context.super_id} has a namespace {name} that is not this tenant's", dependency
        )
    if namespace.deleting:
        return Wait(
            f"namespace {v.namespace} is being removed from super cluster {context.super_id}", dependency
        )
    return None


def orphan(resource: Resource, p: Envelope, name: str, context: TenantContext, view: View) -> Plan:
    """Return the plan for a super object whose tenant object does not exist.

    Args:
        resource: p's resource.
        p: the super object.
        name: the object's name in the tenant.
        context: the tenant's settings.
        view: the caches.
    """
    if p.annotations.get(names.CLUSTER) != context.key or p.deleting:
        return EMPTY
    uid = p.annotations.get(names.UID, "")
    namespace = p.annotations.get(names.NAMESPACE, "") if resource.namespaced else ""
    seen = view.deletion_seen(resource, namespace, name, uid)
    return Plan((Delete("super", resource, p.namespace, p.name, p.uid, confirm=not seen),))


def without_copy(
    resource: Resource, v: Envelope, p: Envelope | None, context: TenantContext
) -> tuple[Delete, ...]:
    """Return the deletion of v's copy; nothing if there is none, it is being deleted, or p is another object.

    Args:
        resource: the resource of both objects.
        v: the tenant's object, which is to have no copy.
        p: the super cluster's object of the corresponding name.
        context: the tenant's settings.
    """
    if p is None or p.deleting or identify(v, p, context) is not Identity.OURS:
        return ()
    return (Delete("super", resource, p.namespace, p.name, p.uid),)


def settle_identity(
    resource: Resource, v: Envelope, p: Envelope, context: TenantContext, *, adopt: View | None = None
) -> Plan | None:
    """Return the plan before p can be compared with v; None if p is v's copy and is not being deleted.

    Args:
        resource: the resource of both objects.
        v: the tenant's object.
        p: the super cluster's object of the corresponding name.
        context: the tenant's settings.
        adopt: the caches, if an object without owner is adopted, provided that its namespace is this tenant's. The caller's
            patch then writes the annotations of ownership. None if such an object is foreign.
    """
    identity = identify(v, p, context)
    if identity is Identity.FOREIGN:
        if adopt is None or names.CLUSTER in p.annotations:
            return name_taken(resource, p)
        if (wait := super_namespace_wait(v, context, adopt)) is not None:
            return Plan(wait=wait)
    if p.deleting:
        return Plan(
            wait=Wait(
                f"{resource.kind} {p.name} is being deleted in super cluster {context.super_id}",
                (Dependency("super", resource, p.namespace, p.name),),
            )
        )
    if identity is Identity.OUTDATED and adopt is None:
        return Plan((Delete("super", resource, p.namespace, p.name, p.uid, confirm=True),))
    return None


def name_taken(resource: Resource, p: Envelope) -> Plan:
    """Report a foreign object that has the name. It is not changed."""
    message = (
        f"the cluster your Pods run on already has a {resource.kind} named {p.name} in this namespace that does not "
        "belong to you; use another name, or ask the operator to remove it"
    )
    return Plan(
        (Notify("Warning", NAME_TAKEN, message),),
        Wait(
            f"{resource.kind} {p.name} in the super cluster is not ours",
            (Dependency("super", resource, p.namespace, p.name),),
            RETRY_SECONDS,
        ),
    )


def reserved_name(resource: Resource, name: str) -> Plan:
    """Refuse a tenant object whose name the syncer needs for itself."""
    message = f"the name {name} is reserved for the system in namespaces of super clusters; rename this {resource.kind}"
    return Plan((Notify("Warning", RESERVED_NAME, message),), Wait(f"the name {name} is reserved"))
