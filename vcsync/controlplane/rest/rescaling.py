"""Writes through the scale subresource: from what was sent to the object that shall stand there.

Behaviour: `scaleUpdatedObjectInfo` of `registry/apps/*/storage` in Kubernetes and of apiextensions-apiserver.
"""

from collections.abc import Callable

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.patch import documents
from vcsync.controlplane.rest import meta, scaling
from vcsync.controlplane.rest.copies import copied
from vcsync.controlplane.rest.fitting import Made, fit
from vcsync.controlplane.rest.options import WriteOptions
from vcsync.controlplane.rest.patching import read_applied
from vcsync.controlplane.rest.registry import Change
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.rest.tracking import apply_scale, own_scale, shown_scale, track_scale
from vcsync.controlplane.schema import builtin
from vcsync.controlplane.wire import decode, negotiation

SCALE = decode.Expected("autoscaling", "v1", "Scale")


def replaced(scope: Scope, sent: Object, options: WriteOptions) -> Change:
    """Return what a PUT of a Scale does to whatever stands there."""

    def scale(shown: Object) -> Object:
        new = copied(sent)
        track_scale(scope, shown, new, options.manager)
        return new

    return _change(scope, scale)


def patched(scope: Scope, form: str, patch: bytes, options: WriteOptions) -> Change:
    """Return what a patch of a Scale does to whatever stands there.

    Raises:
        StatusError: the patch cannot be read.
    """
    if form == negotiation.APPLY_PATCH:
        return _applied(scope, patch, options)
    decoded, seen = decode.read_patch(patch, form)
    schema = builtin.schema(*SCALE[:3])

    def scale(shown: Object) -> Object:
        new = documents.apply_patch(form, shown, patch, schema)
        new = fit(scope, SCALE, new, options.validation, Made(form, decoded), seen)
        track_scale(scope, shown, new, options.manager)
        return new

    return _change(scope, scale)


def _applied(scope: Scope, patch: bytes, options: WriteOptions) -> Change:
    wanted = read_applied(scope, SCALE, patch, options)
    if scope.kind.resource.custom:
        # The real server knows no way between Scales and custom resources here.
        why = "request to convert CR to an invalid group/version: autoscaling/v1"
        about = "failed to convert live object (/; autoscaling/v1, Kind=Scale) to proper version"
        raise StatusError(500, "", f"failed to create manager for existing fields: {about}: {why}")

    def scale(shown: Object) -> Object:
        merged = apply_scale(scope, shown, copied(wanted), options.manager, bool(options.force))
        return fit(scope, SCALE, merged, "Ignore", Made(negotiation.APPLY_PATCH, wanted))

    return _change(scope, scale)


def _change(scope: Scope, scale: Callable[[Object], Object]) -> Change:
    """Return what a write does, given what it makes of the Scale that is shown."""

    async def change(live: Object | None) -> Object:
        new = copied(live or {})
        shown = scaling.to_scale(scope.kind, new, unset=scaling.UNSET)
        shown_scale(scope, shown, new)
        after = scale(shown)
        meta.settle_namespace(after["metadata"], scope.namespace)
        meta.check_name(after["metadata"], scope.name, scope.namespace)
        scaling.apply_scale(scope.kind, new, after, scope.name)
        own_scale(scope, new, after)
        return new

    return change
