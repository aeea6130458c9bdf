"""The create verb. Behaviour: apiserver's `endpoints/handlers/create.go`."""

from dataclasses import replace
from functools import partial

from vcsync.apimachinery import errors
from vcsync.apiserver.handlers.backend import Backend
from vcsync.apiserver.handlers.request import Request
from vcsync.apiserver.registry import object_meta as meta
from vcsync.apiserver.registry.bodies import read_object
from vcsync.apiserver.registry.field_managers import track
from vcsync.apiserver.registry.offloading import run_decoding, run_step
from vcsync.apiserver.registry.patch import defaulted
from vcsync.apiserver.request.options import write_options
from vcsync.apiserver.request.reply import Reply


async def create_object(backend: Backend, request: Request, body: bytes) -> Reply:
    """Create an object.

    Raises:
        StatusError: The request is refused.
    """
    scope = request.scope
    options = write_options(request.query, "CreateOptions")
    content_type = request.headers.content_type
    read = partial(read_object, scope, body, content_type, options.validation)
    obj = await run_decoding(scope, body, content_type, read)
    metadata = obj["metadata"]
    meta.wipe(metadata)
    if scope.name and metadata.get("name") in (None, ""):
        metadata["name"] = scope.name
    scope.name = metadata.get("name") or ""
    meta.settle_namespace(metadata, scope.namespace if scope.kind.resource.namespaced else "")
    scope.warn(meta.drop_duplicate_owners(metadata))
    if scope.kind.resource.namespaced and not scope.namespace:
        raise errors.bad_request("namespace is required")
    if scope.kind.refusal:
        raise scope.kind.refusal
    scope.context = replace(scope.context, unlabelled=not metadata.get("labels"))
    obj = await run_step(scope, partial(defaulted, scope, obj))
    await run_step(scope, partial(track, scope, None, obj, options.manager))
    return await backend.reply(request, await backend.registry.create(scope, obj, options))
