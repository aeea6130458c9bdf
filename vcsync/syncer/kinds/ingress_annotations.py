"""Annotations of Ingresses: only those that the operator's policy names are copied, since they configure its controllers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from vcsync.api import names
from vcsync.objects.envelope import Envelope
from vcsync.syncer.kinds import metadata
from vcsync.syncer.kinds.plan import TenantContext

LEGACY_CLASS: Final = "kubernetes.io/ingress.class"
"""Annotation that names the class of an Ingress without `spec.ingressClassName`."""
_LISTED: Final = 8
_MEANT_FOR_OTHERS: Final = ("kubectl.kubernetes.io/", "meta.helm.sh/")
"""Prefixes of annotations of clients, which no ingress controller reads."""


def desired(v: Envelope, class_name: str, context: TenantContext) -> dict[str, str]:
    """Return the annotations of the copy.

    Args:
        v: the tenant's Ingress.
        class_name: the class that the tenant names; "" for none.
        context: the tenant's settings.
    """
    copied = {key: value for key, value in v.annotations.items() if _is_allowed(key, context)}
    wanted = copied | metadata.own_annotations(v, context)
    if copied:
        wanted[names.COPIED_ANNOTATIONS] = msgspec.json.encode(sorted(copied)).decode()
    if class_name:
        wanted[names.INGRESS_CLASS] = class_name
    if text := left_out(v, context):
        wanted[names.REFUSED] = text
    return wanted


def changes(wanted: Mapping[str, str], p: Envelope, context: TenantContext) -> dict[str, str | None]:
    """Return the merge patch of the copy's annotations; empty if they are as wanted.

    Annotations that others set in the super cluster stay, such as those of ingress controllers, if their keys belong to the
    super cluster (see `metadata.is_ignored`). Copied annotations that are not wanted any more are removed in any case.
    """
    patch = metadata.map_patch(wanted, p.annotations, context)
    for key in _copied_before(p):
        if key in p.annotations and key not in wanted:
            patch[key] = None
    for key in (names.COPIED_ANNOTATIONS, names.INGRESS_CLASS, names.REFUSED):
        if key in p.annotations and key not in wanted:
            patch[key] = None
    return patch


def withdrawn(p: Envelope, context: TenantContext) -> dict[str, str | None]:
    """Return the merge patch that removes copied annotations which the policy does not allow any more; usually empty."""
    copied = _copied_before(p)
    gone = [key for key in copied if not _is_allowed(key, context)]
    if not gone:
        return {}
    rest = [key for key in copied if key not in gone]
    return {
        **{key: None for key in gone if key in p.annotations},
        names.COPIED_ANNOTATIONS: msgspec.json.encode(rest).decode() if rest else None,
    }


def left_out(v: Envelope, context: TenantContext) -> str:
    """Return the annotations of the tenant that are not copied, as a text for people; "" if there are none."""
    keys = sorted(key for key in v.annotations if _is_meant(key, context) and not _is_allowed(key, context))
    more = f" and {len(keys) - _LISTED} more" if len(keys) > _LISTED else ""
    return ", ".join(keys[:_LISTED]) + more


def _is_meant(key: str, context: TenantContext) -> bool:
    """Return whether a tenant may expect that an ingress controller reads an annotation."""
    return not (
        key == LEGACY_CLASS or key.startswith((*_MEANT_FOR_OTHERS, *context.opaque_prefixes)) or _is_ours(key)
    )


def _is_allowed(key: str, context: TenantContext) -> bool:
    if key == LEGACY_CLASS or _is_ours(key) or key.startswith(context.opaque_prefixes):
        return False
    return any(
        key.startswith(pattern[:-1]) if pattern.endswith("*") else key == pattern
        for pattern in context.ingress_policy.annotations
    )


def _is_ours(key: str) -> bool:
    """Return whether an annotation belongs to vcsync. Tenants that wrote it get no effect by any policy."""
    domain = key.partition("/")[0]
    return any(domain == own or domain.endswith(f".{own}") for own in names.OWN_DOMAINS)


def _copied_before(p: Envelope) -> list[str]:
    text = p.annotations.get(names.COPIED_ANNOTATIONS)
    if text is None:
        return []
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.DecodeError:
        return []
