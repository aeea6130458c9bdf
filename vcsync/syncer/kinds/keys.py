"""Keys of labels and annotations: which ones are copied to super clusters, and under which names.

Annotations are commands to controllers, networks and runtimes, so only those that the operator's policy names are copied. Labels
are copied, since selectors need them. Those that programs are known to obey get another key, in labels and selectors alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from vcsync.api import names
from vcsync.kube.resources import (
    ENDPOINT_SLICES,
    ENDPOINTS,
    INGRESSES,
    NETWORK_POLICIES,
    PODS,
    SERVICES,
    Resource,
)
from vcsync.objects.envelope import Envelope
from vcsync.objects.text_cache import cache_short_texts
from vcsync.syncer.kinds.obeyed_labels import is_obeyed
from vcsync.syncer.kinds.plan import TenantContext

ANNOTATIONS_LEFT_OUT: Final = "AnnotationsLeftOut"
"""Event reason: annotations are not copied, since the operator's policy does not name them, or labels have another key."""
LEGACY_CLASS: Final = "kubernetes.io/ingress.class"
"""Annotation that names the class of an Ingress without `spec.ingressClassName`. It is never copied."""
_OF_NETWORKS: Final = frozenset({SERVICES, ENDPOINTS, ENDPOINT_SLICES, NETWORK_POLICIES})
"""Kinds that follow the policy of Services. All others but Ingresses follow that of Pods."""
_OWN_PREFIXES = ("tenancy.x-k8s.io", "transparency.tenancy.x-k8s.io")
_NOT_MEANT: Final = ("kubectl.kubernetes.io/", "meta.helm.sh/", "checksum/")
"""Beginnings of annotations that clients read, and no program of a cluster."""
_LISTED: Final = 8
_NONE: Final = "[]"
_NAME_LENGTH: Final = 46
_DIGEST_LENGTH: Final = 16


# --- Rules of single keys --------------------------------------------------------------------------------


@cache_short_texts(16384, 320)
def _is_reserved_or_opaque_by_default(key: str) -> bool:
    if key.startswith(_OWN_PREFIXES):
        return True
    domain, slash, _ = key.partition("/")
    if not slash:
        return False
    if within(domain, names.OWN_DOMAINS):
        return True
    return within(domain, names.DEFAULT_OPAQUE_DOMAINS) and not within(
        domain, names.DEFAULT_TRANSLUCENT_DOMAINS
    )


def within(domain: str, domains: tuple[str, ...]) -> bool:
    """Return whether a domain is one of `domains`, or a subdomain of one."""
    return f".{domain}".endswith(_dotted(domains))


@lru_cache(maxsize=16)
def _dotted(domains: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f".{domain}" for domain in domains)


def is_stripped(key: str, context: TenantContext) -> bool:
    """Return whether a tenant's label with this key is not copied at all.

    These are vcsync's own prefixes (a tenant may write them without effect), the VirtualCluster's opaque prefixes, and
    kubernetes.io and k8s.io with their subdomains, except for the domains of workload labels that selectors use. The rule
    is the same for every kind.
    """
    return _is_reserved_or_opaque_by_default(key) or key.startswith(context.opaque_prefixes)


def is_ignored(key: str, context: TenantContext) -> bool:
    """Return whether a key on any super object belongs to the super cluster, so that it is neither changed nor removed."""
    return is_stripped(key, context) or key.startswith(context.transparent_prefixes)


def is_withheld(key: str, resource: Resource, context: TenantContext) -> bool:
    """Return whether a label has another key in the super cluster, since programs there are known to obey it.

    The operator allows keys by the policy for the kind, and by the VirtualCluster's transparent prefixes.
    """
    if not is_obeyed(key, resource.plural):
        return False
    if key.startswith(context.transparent_prefixes):
        return False
    return _is_slashless_io(key) or not _matches(key, _allowed_labels(resource, context))


def is_allowed(key: str, resource: Resource, context: TenantContext) -> bool:
    """Return whether an annotation is copied: the operator's policy for the kind names it.

    Some never are, whatever the policy says: those of vcsync, those of the VirtualCluster's opaque prefixes, and those without a
    slash that begin with `io.`, which configure container runtimes on nodes.
    """
    return _is_allowed(key, _allowed(resource, context), context)


def _is_allowed(key: str, patterns: tuple[str, ...], context: TenantContext) -> bool:
    if not _matches(key, patterns) or key == LEGACY_CLASS or _is_ours(key) or _is_slashless_io(key):
        return False
    return not key.startswith(context.opaque_prefixes)


@cache_short_texts(16384, 320)
def _is_ours(key: str) -> bool:
    # API servers accept capital letters in the domains of annotations.
    return within(key.partition("/")[0].lower(), names.OWN_DOMAINS)


def _is_slashless_io(key: str) -> bool:
    return "/" not in key and key[:3].lower() == "io."


def _matches(key: str, patterns: Iterable[str]) -> bool:
    return any(
        key.startswith(pattern[:-1]) if pattern.endswith("*") else key == pattern for pattern in patterns
    )


def _allowed(resource: Resource, context: TenantContext) -> tuple[str, ...]:
    if resource == INGRESSES:
        return context.ingress_policy.annotations
    return (context.service_policy if resource in _OF_NETWORKS else context.policy).annotations


def _allowed_labels(resource: Resource, context: TenantContext) -> tuple[str, ...]:
    if resource == INGRESSES or resource in _OF_NETWORKS:
        return context.service_policy.labels
    return context.policy.labels


# --- Labels and selectors --------------------------------------------------------------------------------


def copied_labels(values: Mapping[str, str], resource: Resource, context: TenantContext) -> dict[str, str]:
    """Return the labels of a tenant's object as its copy has them."""
    return {
        label_key(key, resource, context): value
        for key, value in values.items()
        if not is_stripped(key, context)
    }


def label_key(key: str, resource: Resource, context: TenantContext) -> str:
    """Return the key that a tenant's label has in the super cluster.

    Args:
        key: the key in the tenant.
        resource: the kind of the labelled object.
        context: the tenant's settings.
    """
    return renamed(key) if is_withheld(key, resource, context) else key


@cache_short_texts(4096, 320)
def renamed(key: str) -> str:
    """Return a key that no program obeys, for a label of this key."""
    digest = hashlib.sha256(key.encode(errors="replace")).hexdigest()[:_DIGEST_LENGTH]
    return f"{names.WITHHELD_PREFIX}{key.replace('/', '_')[:_NAME_LENGTH]}-{digest}"


def match_labels(selector: Mapping[str, str], resource: Resource, context: TenantContext) -> dict[str, str]:
    """Return a map selector, as that of a Service, that selects the copies of the same objects.

    Args:
        selector: the tenant's selector.
        resource: the kind that it selects.
        context: the tenant's settings.
    """
    return {label_key(key, resource, context): value for key, value in selector.items()}


def label_selector(selector: Mapping[str, Any], resource: Resource, context: TenantContext) -> dict[str, Any]:
    """Return a LabelSelector that selects the copies of the same objects; arguments as for `match_labels`."""
    converted = dict(selector)
    if match := selector.get("matchLabels"):
        converted["matchLabels"] = match_labels(match, resource, context)
    if expressions := selector.get("matchExpressions"):
        converted["matchExpressions"] = [
            {**each, "key": label_key(each.get("key", ""), resource, context)} for each in expressions
        ]
    return converted


# --- Annotations -----------------------------------------------------------------------------------------


def copied_annotations(
    values: Mapping[str, str], resource: Resource, context: TenantContext
) -> dict[str, str]:
    """Return the annotations of a tenant's object that are copied."""
    if not (patterns := _allowed(resource, context)):
        return {}
    return {key: value for key, value in values.items() if _is_allowed(key, patterns, context)}


def record(copied: Iterable[str]) -> str:
    """Return the value of `names.COPIED_ANNOTATIONS` for copied annotations."""
    listed = sorted(copied)
    return msgspec.json.encode(listed).decode() if listed else _NONE


def recorded(annotations: Mapping[str, str]) -> list[str]:
    """Return the copied annotations that a super object records."""
    text = annotations.get(names.COPIED_ANNOTATIONS, _NONE)
    if text == _NONE:
        return []
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.DecodeError:
        return []


# --- What is not copied ----------------------------------------------------------------------------------


def left_out(v: Envelope, resource: Resource, context: TenantContext) -> str:
    """Return labels and annotations that have no effect in the super cluster, as a text for people; "" if there are none.

    It leaves out what no program of a cluster reads, and keys of Kubernetes on objects other than Services and Ingresses: clients
    and controllers of the tenant write those.
    """
    patterns = _allowed(resource, context)
    everything = resource in (SERVICES, INGRESSES)
    annotations = [
        key
        for key in v.annotations
        if is_meant(key, context, everything=everything) and not _is_allowed(key, patterns, context)
    ]
    labels = [
        key for key in v.labels if not is_stripped(key, context) and is_withheld(key, resource, context)
    ]
    parts = [
        f"metadata.{field} {listed(found)}"
        for field, found in (("annotations", annotations), ("labels", labels))
        if found
    ]
    return "; ".join(parts)


def listed(found: Iterable[str]) -> str:
    """Return keys in order, at most `_LISTED` of them."""
    ordered = sorted(found)
    more = f" and {len(ordered) - _LISTED} more" if len(ordered) > _LISTED else ""
    return ", ".join(ordered[:_LISTED]) + more


def left_out_message(resource: Resource, text: str) -> str:
    """Return the message of the Event about what is not copied, with the remedy.

    Args:
        resource: the kind of the object.
        text: the result of `left_out`.
    """
    policy = "servicePolicy" if resource in _OF_NETWORKS else "podPolicy"
    return (
        "without effect in the clusters your Pods run on, since programs there may obey it; remove it, or "
        f"ask the operator to allow it in {policy}.annotations or {policy}.labels: {text}"
    )


def is_meant(key: str, context: TenantContext, *, everything: bool) -> bool:
    """Return whether a tenant may expect that a program of the super cluster reads an annotation.

    Args:
        key: the annotation's key.
        context: the tenant's settings.
        everything: whether that is so for keys of Kubernetes, too.
    """
    others = (*_NOT_MEANT, *context.opaque_prefixes, *context.transparent_prefixes)
    if key == LEGACY_CLASS or key.startswith(others) or _is_ours(key):
        return False
    return everything or not within(key.partition("/")[0], names.DEFAULT_OPAQUE_DOMAINS)


def is_shown_as_is(field: str, key: str, context: TenantContext) -> bool:
    """Return whether a Pod's copy has a label under its own key. The downward API shows all else by annotations of vcsync.

    Args:
        field: `metadata.labels` or `metadata.annotations`.
        key: the key.
        context: the tenant's settings.
    """
    return (
        field == "metadata.labels" and not is_stripped(key, context) and not is_withheld(key, PODS, context)
    )
