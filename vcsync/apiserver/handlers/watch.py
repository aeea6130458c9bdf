"""The watch verb, over HTTP and WebSockets. Behaviour: apiserver's `endpoints/handlers/watch.go`."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from vcsync.apimachinery.errors import StatusError, bad_request
from vcsync.apiserver.handlers.backend import Backend
from vcsync.apiserver.handlers.connect import refused_handshake
from vcsync.apiserver.handlers.request import Request, listed_selection, tenant_mark
from vcsync.apiserver.handlers.watch_encoder import WatchEncoder
from vcsync.apiserver.request.options import list_options
from vcsync.apiserver.request.reply import Outlet, Stream, Tunnel
from vcsync.apiserver.watch.watcher import Bookmark, Failed, Item, WatchEvent
from vcsync.process.loop_turns import turn
from vcsync.streams.duplex import BytesIn, BytesOut
from vcsync.streams.websockets import (
    BINARY,
    TEXT,
    BadHandshake,
    Offer,
    accepting_head,
    frame,
    offer,
    send_messages,
)

PIECE_BYTES = 64 * 1024
"""Encoded bytes after which a watch yields to other tasks."""
PIECE_SECONDS = 0.0005
"""Encoding time after which a watch yields to other tasks."""
LENGTH_BYTES = 4
"""Length of the length before each event of a watch in protobuf. A message has a length of its own."""
MANY_PROTOCOLS = (
    "Sec-WebSocket-Protocol must name no more than one protocol for a watch, which is not chosen among"
)


async def watch_objects(backend: Backend, request: Request) -> Stream:
    """Answer with a stream of the changes of a collection: lines, or the messages of a WebSocket if the client asks for one.

    Raises:
        StatusError: 400 or 422 for the options or the handshake, 406 for the representation. An error after that is the
            last event of the stream.
    """
    offered = offered_by(request.headers.all)
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
    if offered is not None:
        items = await backend.watches.open(scope, options, selected)
        return in_messages(offered, _encoded(encoder, items, _framing(request.representation.format)))
    outlet = Outlet()

    def push(events: Sequence[WatchEvent]) -> bool:
        piece = encoder.encode_at_once(events)
        return piece is not None and outlet.write(piece)

    items = await backend.watches.open(scope, options, selected, push)
    return Stream(request.representation.stream_type, _encoded(encoder, items, bytes), outlet)


def offered_by(headers: Mapping[str, str]) -> Offer | None:
    """Return the handshake of a client that reads a watch from a WebSocket; None: it does not.

    Raises:
        StatusError: 400, the handshake is refused.
    """
    try:
        found = offer(headers)
    except BadHandshake as error:
        raise refused_handshake(error) from None
    if found is not None and len(found.protocols) > 1:
        raise bad_request(MANY_PROTOCOLS)
    return found


def _framing(form: str) -> Callable[[bytes], bytes]:
    """Return the function that makes a message of an event."""
    if form == "protobuf":
        return lambda event: frame(BINARY, event[LENGTH_BYTES:])
    return lambda event: frame(TEXT, event)


def in_messages(offered: Offer, frames: AsyncIterator[bytes]) -> Tunnel:
    """Return the answer that sends frames, each a message of a WebSocket. Its sender closes them."""

    async def connect(source: BytesIn, sink: BytesOut) -> None:
        await send_messages(source, sink, frames)

    head = accepting_head(offered.key, "".join(offered.protocols))
    return Tunnel("", frames, head=head, carry=connect)


async def _encoded(
    encoder: WatchEncoder, batches: AsyncIterator[list[Item]], framed: Callable[[bytes], bytes]
) -> AsyncIterator[bytes]:
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
                    yield b"".join([*pieces, framed(encoder.failed(Failed(error)))])
                    return
            pieces.append(framed(piece))
            size += len(piece)
            if size > PIECE_BYTES or time.perf_counter() - since > PIECE_SECONDS:
                yield b"".join(pieces)
                await turn()
                pieces, size, since = [], 0, time.perf_counter()
        if pieces:
            yield b"".join(pieces)
