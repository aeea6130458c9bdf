"""Applies writes of the scale subresource to the scaled object.

Behaviour: `scaleUpdatedObjectInfo` of `registry/apps/*/storage` in Kubernetes and of apiextensions-apiserver.
"""

from collections.abc import Callable

from vcsync.apimachinery.copies import copied
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.patch import documents
from vcsync.apimachinery.schema import builtin
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.wire import decode, negotiation
from vcsync.apiserver.registry import object_meta as meta
from vcsync.apiserver.registry.field_managers import (
    apply_scale,
    managed_fields_from_scale,
    managed_fields_to_scale,
    track_scale,
)
from vcsync.apiserver.registry.patch import read_applied
from vcsync.apiserver.registry.patched_objects import Source, decoded_builtin
from vcsync.apiserver.registry.store import Change
from vcsync.apiserver.request import scale as scaling
from vcsync.apiserver.request.options import WriteOptions
from vcsync.apiserver.request.scope import Scope

SCALE = decode.Expected(
    "autoscaling", "v1", "Scale", refused=("extensions/v1beta1", "apps/v1beta1", "apps/v1beta2")
)


def replaced(scope: Scope, sent: Object, options: WriteOptions) -> Change:
    """Return the change that a PUT of a Scale makes."""

    def scale(live: Object) -> Object:
        new = copied(sent)
        track_scale(scope, live, new, options.manager)
        return new

    return _change(scope, scale)


def patched(scope: Scope, form: str, patch: bytes, options: WriteOptions) -> Change:
    """Return the change that a patch of a Scale makes.

    Args:
        scope: Scope of the request.
        form: Media type of the patch.
        patch: The body.
        options: Options of the request.

    Raises:
        StatusError: The patch cannot be decoded.
    """
    if form == negotiation.APPLY_PATCH:
        return _applied(scope, patch, options)
    content, found = decode.read_patch(patch, form)
    written = decode.keeps_numbers(patch, form)
    schema = builtin.schema(*SCALE[:3])

    def scale(live: Object) -> Object:
        new = documents.apply_patch(form, live, patch, schema, typed=True)
        new = decoded_builtin(scope, SCALE, new, options.validation, Source(form, content, written), found)
        track_scale(scope, live, new, options.manager)
        return new

    return _change(scope, scale)


def _applied(scope: Scope, patch: bytes, options: WriteOptions) -> Change:
    wanted = read_applied(scope, SCALE, patch, options)
    if scope.kind.resource.custom:
        # kube-apiserver cannot convert between Scales and custom resources here.
        why = "request to convert CR to an invalid group/version: autoscaling/v1"
        about = "failed to convert live object (/; autoscaling/v1, Kind=Scale) to proper version"
        raise StatusError(500, "", f"failed to create manager for existing fields: {about}: {why}")

    def scale(live: Object) -> Object:
        merged = apply_scale(scope, live, copied(wanted), options.manager, bool(options.force))
        return decoded_builtin(scope, SCALE, merged, "Ignore", Source(negotiation.APPLY_PATCH, wanted))

    return _change(scope, scale)


def _change(scope: Scope, scale: Callable[[Object], Object]) -> Change:
    """Return the change of a scaled object.

    Args:
        scope: Scope of the request.
        scale: Returns the new Scale for the current one.
    """

    async def change(live: Object | None) -> Object:
        new = copied(live or {})
        current = scaling.to_scale(scope.kind, new, unset=scaling.UNSET)
        managed_fields_to_scale(scope, current, new)
        after = scale(current)
        meta.settle_namespace(after["metadata"], scope.namespace)
        meta.check_name(after["metadata"], scope.name, scope.namespace)
        scaling.apply_scale(scope.kind, new, after, scope.name)
        managed_fields_from_scale(scope, new, after)
        return new

    return change
