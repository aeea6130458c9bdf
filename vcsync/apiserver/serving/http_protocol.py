"""The HTTP protocol of one connection to the API server: bounded, and with delays for refusals that are repeated at once."""

import asyncio
import random
import time

from aiohttp import HttpVersion11, web

from vcsync.apiserver.serving.retry_delay import RetryDelay
from vcsync.process.http_connection import BoundedHandler

MOST_JITTER = 1.5
"""Factor by which the delay of a refusal grows at most."""


class Handler(BoundedHandler):
    """The handler of a connection.

    Attributes:
        retry_delay: Delays refusals by limits of requests.
    """

    __slots__ = ("retry_delay",)

    retry_delay: RetryDelay

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start with a connection that has been refused nothing."""
        self.retry_delay = RetryDelay()
        super().connection_made(transport)


async def delay_refusal(request: web.BaseRequest, retry_after: float) -> None:
    """Wait before a refusal is sent if the client did not wait for the Retry-After of the last one on its connection."""
    if isinstance(request.protocol, Handler):
        delay = request.protocol.retry_delay.next(retry_after, time.monotonic())
        # Without jitter, clients that were refused at once would all be answered at once, again and again.
        await asyncio.sleep(delay * random.uniform(1, MOST_JITTER))  # noqa: S311


def delimit(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Send the body of an answer in chunks or, to a client of HTTP/1.0, until the end of the connection."""
    if request.version >= HttpVersion11:
        response.enable_chunked_encoding()
    else:
        response.force_close()
