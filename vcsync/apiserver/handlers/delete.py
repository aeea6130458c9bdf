"""The delete verb. Behaviour: apiserver's `endpoints/handlers/delete.go`."""

from dataclasses import replace
from functools import partial

from vcsync.apiserver.handlers.backend import Backend
from vcsync.apiserver.handlers.request import Request
from vcsync.apiserver.registry import deletion
from vcsync.apiserver.registry.bodies import read_options
from vcsync.apiserver.registry.offloading import run_decoding
from vcsync.apiserver.registry.store import Written
from vcsync.apiserver.request.options import delete_options
from vcsync.apiserver.request.reply import Reply


async def delete_object(backend: Backend, request: Request, body: bytes) -> Reply:
    """Delete an object. The answer is the object or, where the kind says so, a Status.

    The code is 202 if the object still exists afterwards and the options set `orphanDependents` to false.

    Raises:
        StatusError: The request is refused.
    """
    scope = request.scope
    content_type = request.headers.content_type
    sent = await run_decoding(scope, body, content_type, partial(read_options, body, content_type))
    options = delete_options(request.query, sent)
    scope.warn(deletion.warnings(scope, options))
    deleted = await backend.deleter.delete(scope, options)
    code = 202 if not deleted.gone and options.orphan is False else 200
    if deleted.value is None:
        status = backend.encoder.encode_document(deletion.status_of(scope, deleted), request.representation)
        return Reply(code, [status], request.representation.content_type)
    return replace(await backend.reply(request, Written(deleted.value, deleted.revision)), status=code)
