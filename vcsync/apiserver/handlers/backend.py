"""The parts that all verbs use: registry, reader, watch cache and response encoder."""

from dataclasses import dataclass

from vcsync.apiserver.handlers.request import Request
from vcsync.apiserver.handlers.responses import ResponseEncoder
from vcsync.apiserver.registry.deletion import Deleter
from vcsync.apiserver.registry.reading import Reader
from vcsync.apiserver.registry.store import Registry, Written
from vcsync.apiserver.request.reply import Reply
from vcsync.apiserver.watch.watcher import Watches


@dataclass(frozen=True, slots=True)
class Backend:
    """Dependencies that all verbs share."""

    registry: Registry
    reader: Reader
    watches: Watches
    deleter: Deleter
    encoder: ResponseEncoder

    async def reply(self, request: Request, written: Written) -> Reply:
        """Answer with one stored object: 201 if the request created it, otherwise 200."""
        body = await self.encoder.encode_object(
            request.answered_kind, written.value, written.revision, request.representation, request.query
        )
        return Reply(201 if written.created else 200, body, request.representation.content_type)
