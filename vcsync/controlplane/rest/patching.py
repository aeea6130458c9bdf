"""PATCH: from a patch to the object that shall stand there."""

from functools import partial

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.patch import documents
from vcsync.controlplane.rest import meta
from vcsync.controlplane.rest.copies import copied
from vcsync.controlplane.rest.fitting import Made, fitted
from vcsync.controlplane.rest.heavy import heavily
from vcsync.controlplane.rest.options import WriteOptions
from vcsync.controlplane.rest.registry import Change
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.rest.tracking import applied, track
from vcsync.controlplane.wire import decode, negotiation

RESETS: tuple[list[object], ...] = ([], [{}])
"""What a client sends as managedFields to be rid of them all."""


def defaulted(scope: Scope, served: Object) -> Object:
    """Return a served object with its defaults, as ownership of fields is told of it."""
    given = served["metadata"].get("managedFields")
    whole = scope.kind.served(scope.kind.working(served))
    if given in RESETS:
        whole["metadata"]["managedFields"] = given
    return whole


def patched(scope: Scope, form: str, patch: bytes, options: WriteOptions) -> Change:
    """Return what a patch does to whatever stands there.

    Raises:
        StatusError: the patch cannot be read.
    """
    if form == negotiation.APPLY_PATCH:
        return _apply(scope, patch, options)
    decoded, seen = decode.read_patch(patch, form)
    made = Made(form, decoded)

    async def change(live: Object | None) -> Object:
        if live is None:
            resource = scope.kind.resource
            raise errors.not_found(resource.plural, resource.group, scope.name)
        return await heavily(scope, partial(made_of, live))

    def made_of(live: Object) -> Object:
        new = documents.apply_patch(form, live, patch, scope.kind.schema)
        new = fitted(scope, new, options.validation, made, seen)
        _settle(scope, new)
        new = defaulted(scope, new)
        track(scope, live, new, options.manager)
        return new

    return change


def _apply(scope: Scope, patch: bytes, options: WriteOptions) -> Change:
    resource = scope.kind.resource
    expected = decode.Expected(resource.group, resource.version, resource.kind)
    wanted = read_applied(scope, expected, patch, options)

    async def change(live: Object | None) -> Object:
        return await heavily(scope, partial(made_of, live))

    def made_of(live: Object | None) -> Object:
        merged = applied(scope, live, copied(wanted), options.manager, bool(options.force))
        version = (wanted.get("metadata") or {}).get("resourceVersion")
        new = fitted(scope, merged, "Ignore", Made(negotiation.APPLY_PATCH, wanted))
        if version:
            new["metadata"]["resourceVersion"] = version
        _settle(scope, new)
        return new

    return change


def read_applied(scope: Scope, expected: decode.Expected, patch: bytes, options: WriteOptions) -> Object:
    """Read what is applied; warns of keys that stand twice.

    Raises:
        StatusError: 400.
    """
    wanted, seen = decode.read_patch(patch, negotiation.APPLY_PATCH)
    if not isinstance(wanted, dict):
        into = documents.mismatch(wanted, "map[string]interface {}")
        raise errors.bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {into}")
    if seen and options.validation == "Strict":
        raise decode.strict_error(expected.kind, expected.version, expected.kind, seen)
    if options.validation == "Warn":
        scope.warn(seen)
    return wanted


def _settle(scope: Scope, new: Object) -> None:
    metadata = new["metadata"]
    meta.settle_namespace(metadata, scope.namespace if scope.kind.resource.namespaced else "")
    meta.check_name(metadata, scope.name, scope.namespace)
    scope.warn(meta.drop_duplicate_owners(metadata))
