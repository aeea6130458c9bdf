"""Watches that other servers answer with lines, as the messages of a WebSocket if the client has asked for one."""

from typing import Self

from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.handlers.watch import in_messages, offered_by
from vcsync.apiserver.request.reply import Reply, Stream, Tunnel
from vcsync.apiserver.request.request_info import RequestInfo
from vcsync.kube.lines import LineSplitter, LineTooLong
from vcsync.streams.websockets import TEXT, Offer, frame

LONGEST_LINE = 8 * 1024 * 1024
"""Most bytes of an event. A longer one ends the watch."""
JSON = "application/json"


def asked_for_messages(incoming: Incoming, info: RequestInfo) -> Offer | None:
    """Return the handshake of a client that reads a watch from a WebSocket; None: it does not.

    Raises:
        StatusError: 400, the handshake is refused.
    """
    return offered_by(incoming.headers) if info.verb == "watch" else None


def sent_in_messages(offered: Offer | None, answer: Reply | Stream) -> Reply | Stream:
    """Return an answer whose lines of JSON are messages, if the client has asked for them."""
    if offered is None or not isinstance(answer, Stream) or isinstance(answer, Tunnel):
        return answer
    if answer.content_type.partition(";")[0].strip() != JSON:
        return answer
    return in_messages(offered, _Messages(answer))


class _Messages:
    """The frames of a stream of lines."""

    def __init__(self, lines: Stream) -> None:
        self._pieces = lines.pieces
        self._lines = LineSplitter(LONGEST_LINE)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while True:
            piece = await anext(self._pieces)
            try:
                found = self._lines.feed(piece)
            except LineTooLong:
                raise StopAsyncIteration from None
            if found:
                return b"".join([frame(TEXT, line + b"\n") for line in found])

    async def aclose(self) -> None:
        """End the stream."""
        await self._pieces.aclose()  # type: ignore[attr-defined]
