"""Annotations of Ingresses: only those that the operator's policy names are copied, since they configure its controllers."""

from __future__ import annotations

from collections.abc import Mapping

from vcsync.api import names
from vcsync.kube.resources import INGRESSES
from vcsync.objects.envelope import Envelope
from vcsync.syncer.kinds import keys, metadata
from vcsync.syncer.kinds.plan import TenantContext


def desired(v: Envelope, class_name: str, context: TenantContext) -> dict[str, str]:
    """Return the annotations of the copy.

    Args:
        v: the tenant's Ingress.
        class_name: the class that the tenant names; "" for none.
        context: the tenant's settings.
    """
    copied = keys.copied_annotations(v.annotations, INGRESSES, context)
    wanted = copied | metadata.own_annotations(v, context)
    if copied:
        wanted[names.COPIED_ANNOTATIONS] = keys.record(copied)
    if class_name:
        wanted[names.INGRESS_CLASS] = class_name
    if text := left_out(v, context):
        wanted[names.REFUSED] = text
    return wanted


def changes(wanted: Mapping[str, str], p: Envelope, context: TenantContext) -> dict[str, str | None]:
    """Return the merge patch of the copy's annotations; empty if they are as wanted.

    Annotations that others set in the super cluster stay, such as those of ingress controllers, if their keys belong to the
    super cluster (see `keys.is_ignored`). Copied annotations that are not wanted any more are removed in any case.
    """
    patch = metadata.map_patch(wanted, p.annotations, context)
    for key in keys.recorded(p.annotations):
        if key in p.annotations and key not in wanted:
            patch[key] = None
    for key in (names.COPIED_ANNOTATIONS, names.INGRESS_CLASS, names.REFUSED):
        if key in p.annotations and key not in wanted:
            patch[key] = None
    return patch


def withdrawn(p: Envelope, context: TenantContext) -> dict[str, str | None]:
    """Return the merge patch that removes copied annotations which the policy does not allow any more; usually empty."""
    copied = keys.recorded(p.annotations)
    gone = [key for key in copied if not keys.is_allowed(key, INGRESSES, context)]
    if not gone:
        return {}
    rest = [key for key in copied if key not in gone]
    return {
        **{key: None for key in gone if key in p.annotations},
        names.COPIED_ANNOTATIONS: keys.record(rest) if rest else None,
    }


def left_out(v: Envelope, context: TenantContext) -> str:
    """Return the annotations of the tenant that are not copied, as a text for people; "" if there are none."""
    return keys.listed(
        key
        for key in v.annotations
        if keys.is_meant(key, context, everything=True) and not keys.is_allowed(key, INGRESSES, context)
    )
