"""etcd's JSON gateway (https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/): calls, the watch stream, its errors.

Keys and values travel as base64 and 64 bit numbers as strings; msgspec reads and writes both as what they are.
"""

import ssl
from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeVar

import aiohttp
import msgspec

from vcsync.controlplane.store.interface import StoreError, StoreFull, StoreUnavailable

CALL_SECONDS = 10
CONNECT_SECONDS = 3
MAX_CONNECTIONS = 64


class Header(msgspec.Struct):
    """In every answer: the store's newest revision."""

    revision: int = 0


class KeyValue(msgspec.Struct):
    """One key as etcd keeps it."""

    key: bytes = b""
    value: bytes = b""
    create_revision: int = 0
    mod_revision: int = 0


class RangeAnswer(msgspec.Struct):
    """To `/v3/kv/range`. `count`: keys in the range, whatever the limit."""

    header: Header = msgspec.field(default_factory=Header)
    kvs: list[KeyValue] = []
    more: bool = False
    count: int = 0


class Response(msgspec.Struct):
    """To one operation of a transaction; only reads are of interest."""

    response_range: RangeAnswer | None = None


class TxnAnswer(msgspec.Struct):
    """To `/v3/kv/txn`."""

    header: Header
    succeeded: bool = False
    responses: list[Response] = []


class LeaseAnswer(msgspec.Struct):
    """To `/v3/lease/grant`."""

    id: int = msgspec.field(name="ID", default=0)
    error: str = ""


class Anything(msgspec.Struct):
    """An answer of which only its header matters."""

    header: Header = msgspec.field(default_factory=Header)


class Event(msgspec.Struct):
    """One change; `type` is left out for a put."""

    kv: KeyValue
    type: str = "PUT"
    prev_kv: KeyValue | None = None


class WatchAnswer(msgspec.Struct):
    """One message of a watch; `compact_revision` is set when it ends because what it asks for is compacted."""

    header: Header = msgspec.field(default_factory=Header)
    created: bool = False
    canceled: bool = False
    cancel_reason: str = ""
    compact_revision: int = 0
    events: list[Event] = []


class ErrorAnswer(msgspec.Struct):
    """What went wrong, by gRPC's codes."""

    code: int = 0
    message: str = ""


class WatchMessage(msgspec.Struct):
    """A line of the watch stream."""

    result: WatchAnswer | None = None
    error: ErrorAnswer | None = None


class GatewayError(StoreError):
    """An answer that says no. `message` is etcd's own."""

    def __init__(self, message: str) -> None:
        super().__init__(f"etcd: {message}")
        self.message = message


COMPACTED = "required revision has been compacted"
FUTURE = "required revision is a future revision"
NO_LEASE = "requested lease not found"
NO_SPACE = "database space exceeded"
_PASSING = {1, 4, 8, 13, 14}
"""gRPC: cancelled, deadline exceeded, resource exhausted, internal, unavailable."""

A = TypeVar("A")


class Gateway:
    """Connections to the members of one etcd.

    Calls go to the first member that can be reached; a call that may have been heard is not repeated.
    """

    def __init__(self, endpoints: Sequence[str], tls: ssl.SSLContext | None = None) -> None:
        """Connect on demand.

        Args:
            endpoints: URLs of the members, as `http://127.0.0.1:2379`.
            tls: for https: trusted CA and client certificate.
        """
        self._endpoints = [endpoint.rstrip("/") for endpoint in endpoints]
        connect = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        self._calls = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS, ssl=tls or True),
            timeout=aiohttp.ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS),
        )
        self._watches = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=tls or True), timeout=connect
        )

    async def call(self, path: str, request: dict[str, Any], answer: type[A]) -> A:
        """POST a request.

        Raises:
            StoreUnavailable: no member answers; unknown whether it was done.
            StoreFull: etcd's quota is used up.
            GatewayError: etcd refuses.
        """
        try:
            response = await self._post(self._calls, path, msgspec.json.encode(request))
            async with response:
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.move_on()
            raise StoreUnavailable(f"etcd does not answer: {error!r}") from error
        if response.status != 200:
            raise _as_error(body)
        return _decoded(body, answer)

    async def watch(self, request: dict[str, Any]) -> AsyncGenerator[WatchAnswer, None]:
        """Open a watch and yield its messages until it is closed.

        Raises:
            StoreUnavailable: the connection is lost, or the server ended it.
        """
        try:
            response = await self._post(
                self._watches, "/v3/watch", msgspec.json.encode({"create_request": request})
            )
            async with response:
                if response.status != 200:
                    raise _as_error(await response.read())
                rest: list[bytes] = []
                async for chunk in response.content.iter_any():
                    *lines, tail = chunk.split(b"\n")
                    for line in lines:
                        yield _message(b"".join((*rest, line)))
                        rest.clear()
                    rest.append(tail)
        except (aiohttp.ClientError, OSError) as error:
            self.move_on()
            raise StoreUnavailable(f"etcd does not answer: {error!r}") from error
        raise StoreUnavailable("etcd ended a watch")

    def move_on(self) -> None:
        """Ask the next member first from now on."""
        self._endpoints.append(self._endpoints.pop(0))

    async def close(self) -> None:
        """Close all connections."""
        await self._calls.close()
        await self._watches.close()

    async def _post(self, session: aiohttp.ClientSession, path: str, body: bytes) -> aiohttp.ClientResponse:
        last: aiohttp.ClientError | None = None
        for endpoint in list(self._endpoints):
            try:
                return await session.post(endpoint + path, data=body)
            except aiohttp.ClientConnectorError as error:  # it was not heard: the next member may be asked
                last = error
                self.move_on()
        raise last or aiohttp.ClientError("no endpoints")


def _decoded(body: bytes, kind: type[A]) -> A:
    try:
        return msgspec.json.decode(body, type=kind, strict=False)
    except msgspec.MsgspecError as error:
        raise StoreUnavailable(f"not an answer of etcd: {error}") from None


def _message(line: bytes) -> WatchAnswer:
    message = _decoded(line, WatchMessage)
    if message.result is None:
        raise StoreUnavailable(f"etcd ended a watch: {message.error.message if message.error else 'unknown'}")
    return message.result


def _as_error(body: bytes) -> StoreError:
    error = _decoded(body, ErrorAnswer)
    if NO_SPACE in error.message:
        return StoreFull("etcd's database is full: compact, defragment, disarm its alarm, or raise its quota")
    if error.code in _PASSING:
        return StoreUnavailable(f"etcd: {error.message}")
    return GatewayError(error.message)
