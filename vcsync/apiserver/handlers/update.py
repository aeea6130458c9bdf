"""The update verb. Behaviour: apiserver's `endpoints/handlers/update.go`."""

from functools import partial

from vcsync.apimachinery.copies import copied
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.handlers.backend import Backend
from vcsync.apiserver.handlers.request import Request
from vcsync.apiserver.registry import object_meta as meta
from vcsync.apiserver.registry.bodies import read_object
from vcsync.apiserver.registry.field_managers import track
from vcsync.apiserver.registry.offloading import run_decoding, run_step
from vcsync.apiserver.registry.patch import defaulted
from vcsync.apiserver.request.options import write_options
from vcsync.apiserver.request.reply import Reply


async def update_object(backend: Backend, request: Request, body: bytes) -> Reply:
    """Replace an object, or its part that the subresource names.

    Raises:
        StatusError: The request is refused.
    """
    scope = request.scope
    options = write_options(request.query, "UpdateOptions")
    content_type = request.headers.content_type
    read = partial(read_object, scope, body, content_type, options.validation)
    obj = await run_decoding(scope, body, content_type, read)
    metadata = obj["metadata"]
    meta.settle_namespace(metadata, scope.namespace if scope.kind.resource.namespaced else "")
    meta.check_name(metadata, scope.name, scope.namespace)
    uid = metadata.get("uid") or ""
    scope.warn(meta.drop_duplicate_owners(metadata))
    obj = await run_step(scope, partial(defaulted, scope, obj))

    async def change(live: Object | None) -> Object:
        new = copied(obj)
        await run_step(scope, partial(track, scope, live, new, options.manager))
        return new

    return await backend.reply(request, await backend.registry.update(scope, change, options, uid=uid))
