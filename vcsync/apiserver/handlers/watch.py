"""The watch verb. Behaviour: apiserver's `endpoints/handlers/watch.go`."""

import time
from collections.abc import AsyncIterator, Sequence

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.handlers.backend import Backend
from vcsync.apiserver.handlers.request import Request, listed_selection, tenant_mark
from vcsync.apiserver.handlers.watch_encoder import WatchEncoder
from vcsync.apiserver.request.options import list_options
from vcsync.apiserver.request.reply import Outlet, Stream
from vcsync.apiserver.watch.watcher import Bookmark, Failed, Item, WatchEvent
from vcsync.process.loop_turns import turn

PIECE_BYTES = 64 * 1024
"""Encoded bytes after which a watch yields to other tasks."""
PIECE_SECONDS = 0.0005
"""Encoding time after which a watch yields to other tasks."""


async def watch_objects(backend: Backend, request: Request) -> Stream:
    """Answer with a stream of the changes of a collection.

    Raises:
        StatusError: 400 or 422 for the options, 406 for the representation. An error after that is the last event of
            the stream.
    """
    scope = request.scope
    options = list_options(request.query, watch=request.info.by_path)
    selected = listed_selection(request)
    # The encoder comes first: it may refuse, and a stream that has begun could not report that.
    encoder = WatchEncoder(
        backend.encoder,
        request.answered_kind,
        request.representation,
        request.query,
        tenant_mark(request),
    )
    outlet = Outlet()

    def push(events: Sequence[WatchEvent]) -> bool:
        piece = encoder.encode_at_once(events)
        return piece is not None and outlet.write(piece)

    items = await backend.watches.open(scope, options, selected, push)
    return Stream(request.representation.stream_type, _encoded(encoder, items), outlet)


async def _encoded(encoder: WatchEncoder, batches: AsyncIterator[list[Item]]) -> AsyncIterator[bytes]:
    """Encode batches of events; a long batch is sent in pieces so that other tasks run in between.

    An event that cannot be encoded ends the watch with an error, so that the client gets a complete answer.
    """
    async for items in batches:
        pieces: list[bytes] = []
        size, since = 0, time.perf_counter()
        for item in items:
            if isinstance(item, Bookmark):
                piece = encoder.bookmark(item)
            elif isinstance(item, Failed):
                piece = encoder.failed(item)
            else:
                try:
                    piece = await encoder.event(item)
                except StatusError as error:  # a conversion webhook failed
                    yield b"".join([*pieces, encoder.failed(Failed(error))])
                    return
            pieces.append(piece)
            size += len(piece)
            if size > PIECE_BYTES or time.perf_counter() - since > PIECE_SECONDS:
                yield b"".join(pieces)
                await turn()
                pieces, size, since = [], 0, time.perf_counter()
        if pieces:
            yield b"".join(pieces)
