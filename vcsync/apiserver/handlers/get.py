"""The get verb. Behaviour: apiserver's `endpoints/handlers/get.go`."""

from vcsync.apiserver.handlers.backend import Backend
from vcsync.apiserver.handlers.request import Request
from vcsync.apiserver.registry.store import Written
from vcsync.apiserver.request.reply import Reply


async def get_object(backend: Backend, request: Request) -> Reply:
    """Answer with one object.

    Raises:
        StatusError: 404, or 504 if `resourceVersion` is newer than the store.
    """
    version = request.query.get("resourceVersion", ("",))[0]
    record = await backend.reader.get(request.scope, version)
    return await backend.reply(request, Written(record.value, record.revision))
