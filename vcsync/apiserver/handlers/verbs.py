"""Routes an authorized request to the handler of its verb, in this process or in the offload process."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from vcsync.apimachinery.cel import cooperative
from vcsync.apiserver.handlers.backend import Backend
from vcsync.apiserver.handlers.create import create_object
from vcsync.apiserver.handlers.delete import delete_object
from vcsync.apiserver.handlers.deletecollection import delete_collection
from vcsync.apiserver.handlers.get import get_object
from vcsync.apiserver.handlers.list import list_objects
from vcsync.apiserver.handlers.patch import patch_object
from vcsync.apiserver.handlers.request import Request
from vcsync.apiserver.handlers.update import update_object
from vcsync.apiserver.handlers.watch import watch_objects
from vcsync.apiserver.registry.offloading import SlowWrites, is_expensive
from vcsync.apiserver.request.reply import Reply, Stream
from vcsync.objects.loop_steps import TooLong

Handler = Callable[[Backend, Request], Awaitable[Reply | Stream]]
WriteHandler = Callable[[Backend, Request, bytes], Awaitable[Reply]]

HANDLERS: dict[str, Handler] = {
    "get": get_object,
    "list": list_objects,
    "watch": watch_objects,
    "deletecollection": delete_collection,
}
"""Handlers that always run in this process."""
WRITE_HANDLERS: dict[str, WriteHandler] = {
    "create": create_object,
    "update": update_object,
    "patch": patch_object,
    "delete": delete_object,
}
"""Handlers that run in the offload process if the write is expensive. They are given the body."""


class Offload(Protocol):
    """Runs expensive writes in another process."""

    async def write(self, request: Request, body: bytes) -> Reply:
        """Run a write.

        Raises:
            StatusError: The write is refused.
        """


class Verbs:
    """Answers authorized requests for objects and for subresources that are written like objects.

    Args:
        backend: What the handlers work with.
        offload: Runs expensive writes, or None to run all writes in this process.
    """

    def __init__(self, backend: Backend, offload: Offload | None = None) -> None:
        self._backend = backend
        self._offload = offload
        self._slow_writes = SlowWrites()

    async def handle(self, request: Request) -> Reply | Stream:
        """Answer a request.

        Raises:
            StatusError: The request is refused.
        """
        handler = HANDLERS.get(request.info.verb)
        if handler is not None:
            return await handler(self._backend, request)
        return await self.write(request)

    async def write(self, request: Request) -> Reply:
        """Answer a create, update, patch or delete.

        A write runs in the offload process if its body is expensive, or if evaluating the rules on it took too long
        here. The second case is remembered, so that similar writes go to the offload process at once.

        Raises:
            StatusError: The request is refused.
        """
        info, scope, offload = request.info, request.scope, self._offload
        handler = WRITE_HANDLERS[info.verb]
        body = await request.body()
        if offload is None:
            return await handler(self._backend, request, body)
        writes = (scope.tenant, info.verb, info.group, info.resource)
        if is_expensive(body, request.headers.content_type) or self._slow_writes.includes(writes, len(body)):
            return await offload.write(request, body)
        warned = len(scope.warnings)
        try:
            with cooperative.raising_too_long():
                return await handler(self._backend, request, body)
        except TooLong as why:
            if not isinstance(why, cooperative.TooLarge):
                self._slow_writes.add(writes, len(body))
            del scope.warnings[warned:]
            return await offload.write(request, body)
