"""The list verb. Behaviour: apiserver's `endpoints/handlers/get.go`, ListResource."""

from vcsync.apiserver.handlers.backend import Backend
from vcsync.apiserver.handlers.request import Request, listed_selection, tenant_mark
from vcsync.apiserver.request.audit_trail import Level
from vcsync.apiserver.request.options import list_options
from vcsync.apiserver.request.reply import Reply


async def list_objects(backend: Backend, request: Request) -> Reply:
    """Answer with the objects of a collection that the selectors match.

    A long list is read and encoded while it is sent, unless the audit log records whole responses.

    Raises:
        StatusError: 400 or 422 for the options, 410 for an expired continue token.
    """
    scope = request.scope
    options = list_options(request.query)
    listed = await backend.reader.collection(scope, options, listed_selection(request))
    if scope.audit.level >= Level.REQUEST_RESPONSE:
        await listed.whole()
    body, rest = await backend.encoder.encode_list(
        request.answered_kind, listed, request.representation, request.query, tenant_mark(request)
    )
    return Reply(200, body, request.representation.content_type, rest=rest)
