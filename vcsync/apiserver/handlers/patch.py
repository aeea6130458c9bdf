"""The patch verb, server-side apply included. Behaviour: apiserver's `endpoints/handlers/patch.go`."""

from functools import partial

from vcsync.apimachinery.wire import negotiation
from vcsync.apiserver.authorization import syncers
from vcsync.apiserver.handlers.backend import Backend
from vcsync.apiserver.handlers.request import Request
from vcsync.apiserver.registry.bound_status import bind_with_status
from vcsync.apiserver.registry.offloading import run_decoding
from vcsync.apiserver.registry.patch import patched
from vcsync.apiserver.request.options import write_options
from vcsync.apiserver.request.reply import Reply


async def patch_object(backend: Backend, request: Request, body: bytes) -> Reply:
    """Apply a patch to an object. A server-side apply creates the object if it does not exist.

    Raises:
        StatusError: The request is refused.
    """
    scope = request.scope
    form = negotiation.patch_type(request.headers.content_type, custom=scope.kind.resource.custom)
    apply = form == negotiation.APPLY_PATCH
    options = write_options(request.query, "PatchOptions", apply=apply)
    if syncers.is_bound_status(request.info):
        return await backend.reply(
            request, await bind_with_status(backend.registry, scope, form, body, options)
        )
    change = await run_decoding(scope, body, form, partial(patched, scope, form, body, options))
    written = await backend.registry.update(scope, change, options, may_create=apply)
    return await backend.reply(request, written)
