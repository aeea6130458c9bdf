"""The deletecollection verb. Behaviour: apiserver's `endpoints/handlers/delete.go`, DeleteCollection."""

from functools import partial

from vcsync.apimachinery import errors
from vcsync.apiserver.handlers.backend import Backend
from vcsync.apiserver.handlers.request import Request, selectors_of
from vcsync.apiserver.registry import deletion
from vcsync.apiserver.registry.bodies import read_options
from vcsync.apiserver.registry.offloading import run_decoding
from vcsync.apiserver.registry.selection import selection
from vcsync.apiserver.request.options import delete_options, list_options
from vcsync.apiserver.request.reply import Reply


async def delete_collection(backend: Backend, request: Request) -> Reply:
    """Delete the objects of a collection that the selectors match. The answer is the list of them.

    Raises:
        StatusError: The request is refused; 405 for a namespaced resource without a namespace.
    """
    scope = request.scope
    listing = list_options(request.query)
    selected = selection(scope.kind, selectors_of(request))
    body, content_type = await request.body(), request.headers.content_type
    sent = await run_decoding(scope, body, content_type, partial(read_options, body, content_type))
    options = delete_options(request.query, sent)
    if scope.kind.resource.namespaced and not scope.namespace:
        raise errors.method_not_allowed()
    scope.warn(deletion.warnings(scope, options))
    listed = await backend.reader.collection(scope, listing, selected)
    await listed.whole()
    names = [record.key.rpartition("/")[2] for record in listed.records]
    await backend.deleter.delete_all(scope, [(scope.namespace, name) for name in names], options)
    encoded, _ = await backend.encoder.encode_list(
        request.answered_kind, listed, request.representation, request.query
    )
    return Reply(200, encoded, request.representation.content_type)
