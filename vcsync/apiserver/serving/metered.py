"""Counts requests and bytes of connections for their tenants, and against the limits of these."""

from vcsync.apiserver.handlers.exchange import Incoming, Outgoing
from vcsync.apiserver.metering.counters import Counters
from vcsync.apiserver.request.reply import Stream
from vcsync.apiserver.requestlimits.limiter import Passage
from vcsync.streams.duplex import Duplex

OK = 200


def count_usage(incoming: Incoming, outgoing: Outgoing) -> None:
    """Count a request for its tenant, and have its answer counted.

    Requests from the same process are not counted: they are those of vcsync's own roles.
    """
    status = OK if isinstance(outgoing.answer, Stream) else outgoing.answer.status
    incoming.usage.request(incoming.method, status)
    outgoing.usage, outgoing.passage = incoming.usage, incoming.passage


class MeteredConnection:
    """A connection whose bytes are counted, and slowed down to the limits of bytes per second.

    Args:
        connection: The connection.
        usage: Counts the bytes.
        passage: Counts the bytes against limits. None: there are none.
    """

    def __init__(self, connection: Duplex, usage: Counters, passage: Passage | None = None) -> None:
        self._connection = connection
        self._usage = usage
        self._passage = passage

    async def read(self) -> bytes:
        """Return the next bytes, or nothing at the end."""
        data = await self._connection.read()
        self._usage.bytes_in += len(data)
        await self._pace(data)
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait until there is room for more.

        Raises:
            ConnectionError: The connection is closed.
        """
        await self._connection.write(data)
        self._usage.bytes_out += len(data)
        await self._pace(data)

    async def _pace(self, data: bytes) -> None:
        if self._passage is not None:
            self._passage.spend(len(data))
            await self._passage.pace()
