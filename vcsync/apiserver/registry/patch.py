"""Applies patches to objects."""

from functools import partial

from vcsync.apimachinery import errors, tenant_marks
from vcsync.apimachinery.copies import copied
from vcsync.apimachinery.patch import documents
from vcsync.apimachinery.schema import sent_empty
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.wire import decode, negotiation
from vcsync.apiserver.registry import object_meta as meta
from vcsync.apiserver.registry.field_managers import applied, track
from vcsync.apiserver.registry.offloading import run_step
from vcsync.apiserver.registry.patched_objects import Source, decoded
from vcsync.apiserver.registry.store import Change
from vcsync.apiserver.request.options import WriteOptions
from vcsync.apiserver.request.scope import Scope

RESETS: tuple[list[object], ...] = ([], [{}])
"""Values of managedFields with which a client resets the ownership of all fields."""


def defaulted(scope: Scope, served: Object) -> Object:
    """Return a served object with its defaults, whose fields then get their owners."""
    managed_fields = served["metadata"].get("managedFields")
    schema = scope.kind.schema
    empty = sent_empty.empty_places(served, schema.definition) if schema else ()
    whole = scope.kind.served(scope.kind.working(served))
    sent_empty.show(whole, empty)
    if managed_fields in RESETS:
        whole["metadata"]["managedFields"] = managed_fields
    return whole


def patched(scope: Scope, form: str, patch: bytes, options: WriteOptions) -> Change:
    """Return the change that a patch makes.

    Args:
        scope: Scope of the request.
        form: Media type of the patch.
        patch: The body.
        options: Options of the request.

    Raises:
        StatusError: The patch cannot be decoded.
    """
    if form == negotiation.APPLY_PATCH:
        return _apply(scope, patch, options)
    content, found = decode.read_patch(patch, form)
    typed = not scope.kind.resource.custom
    source = Source(form, content, typed and decode.keeps_numbers(patch, form))

    async def change(live: Object | None) -> Object:
        if live is None:
            resource = scope.kind.resource
            raise errors.not_found(resource.plural, resource.group, scope.name)
        return await run_step(scope, partial(patched_object, live))

    def patched_object(live: Object) -> Object:
        new = documents.apply_patch(form, live, patch, scope.kind.schema, typed=typed)
        new = decoded(scope, new, options.validation, source, found)
        _check_metadata(scope, new)
        new = defaulted(scope, new)
        track(scope, live, new, options.manager)
        return new

    return change


def _apply(scope: Scope, patch: bytes, options: WriteOptions) -> Change:
    resource = scope.kind.resource
    expected = decode.Expected(resource.group, resource.version, resource.kind)
    wanted = read_applied(scope, expected, patch, options)

    async def change(live: Object | None) -> Object:
        return await run_step(scope, partial(applied_object, live))

    def applied_object(live: Object | None) -> Object:
        merged = applied(scope, live, copied(wanted), options.manager, bool(options.force))
        version = (wanted.get("metadata") or {}).get("resourceVersion")
        new = decoded(scope, merged, "Ignore", Source(negotiation.APPLY_PATCH, wanted))
        if version:
            new["metadata"]["resourceVersion"] = version
        _check_metadata(scope, new)
        return new

    return change


def read_applied(scope: Scope, expected: decode.Expected, patch: bytes, options: WriteOptions) -> Object:
    """Decode an apply configuration. Adds warnings about duplicate keys.

    Args:
        scope: Scope of the request.
        expected: Kind of the object, for messages.
        patch: The body.
        options: Options of the request.

    Raises:
        StatusError: 400 if the body is invalid.
    """
    wanted, found = decode.read_patch(patch, negotiation.APPLY_PATCH)
    if not isinstance(wanted, dict):
        into = documents.mismatch(wanted, "map[string]interface {}")
        raise errors.bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {into}")
    if found and options.validation == "Strict":
        raise decode.strict_error(expected.kind, expected.version, expected.kind, found)
    if options.validation == "Warn":
        scope.warn(found)
    metadata = wanted.get("metadata")
    if isinstance(metadata, dict):
        tenant_marks.remove(metadata)
    return wanted


def _check_metadata(scope: Scope, new: Object) -> None:
    metadata = new["metadata"]
    meta.settle_namespace(metadata, scope.namespace if scope.kind.resource.namespaced else "")
    meta.check_name(metadata, scope.name, scope.namespace)
    scope.warn(meta.drop_duplicate_owners(metadata))
