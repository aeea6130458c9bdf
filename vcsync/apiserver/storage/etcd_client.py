"""A client of etcd's gRPC API (https://etcd.io/docs/v3.6/learning/api/): calls, the watch stream, members, errors."""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

# gRPC would start its threads again in every forked child. A child of this process executes another program at once, and
# crashes if one of these threads runs before that.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"

import grpc
import grpc.aio

from vcsync.apiserver.storage import etcd_messages as messages
from vcsync.apiserver.storage.interface import StoreError, StoreFull, StoreUnavailable

CALL_SECONDS = 10.0
CONNECT_SECONDS = 3.0

COMPACTED = "required revision has been compacted"
FUTURE = "required revision is a future revision"
NO_LEASE = "requested lease not found"
NO_SPACE = "database space exceeded"
TOO_LARGE = "received message larger than max"
_TEMPORARY = frozenset({
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
})  # fmt: skip
_OF_THE_MEMBER = frozenset({grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE})
"""Codes after which another member may do better: this one is gone, hangs, or has no leader."""
_WITH_LEADER = (("hasleader", "true"),)
"""Asks a member to end a watch when it has lost the leader, as etcd's own client does for kube-apiserver."""
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),  # etcd has its own limit, with an error that says so
    ("grpc.keepalive_time_ms", 30_000),  # as kube-apiserver; etcd refuses less than 5 s
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.enable_retries", 0),  # a call that a member may have received is not repeated
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # a new channel does not wait for the pause of an old one
)


@dataclass(frozen=True, slots=True)
class Method:
    """A method of etcd's API.

    Attributes:
        path: Service and name, as gRPC writes them.
        request: Class of the request.
        answer: Class of the answer.
    """

    path: str
    request: Any
    answer: Any


RANGE = Method("/etcdserverpb.KV/Range", messages.RangeRequest, messages.RangeResponse)
PUT = Method("/etcdserverpb.KV/Put", messages.PutRequest, messages.PutResponse)
TXN = Method("/etcdserverpb.KV/Txn", messages.TxnRequest, messages.TxnResponse)
COMPACT = Method("/etcdserverpb.KV/Compact", messages.CompactionRequest, messages.CompactionResponse)
GRANT = Method("/etcdserverpb.Lease/LeaseGrant", messages.LeaseGrantRequest, messages.LeaseGrantResponse)
WATCH = Method("/etcdserverpb.Watch/Watch", messages.WatchRequest, messages.WatchResponse)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Certificates for members that are reached by https. The files are PEM.

    Attributes:
        authority: Trusted CA. None: the system's.
        certificate, key: Those of this client, or None.
    """

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


class EtcdError(StoreError):
    """etcd refuses a request.

    Attributes:
        message: The message of etcd.
    """

    def __init__(self, message: str) -> None:
        super().__init__(f"etcd: {message}")
        self.message = message


class _Member:
    """The connection to one member. It is opened on demand, and all calls share it."""

    def __init__(self, url: str, credentials: grpc.ChannelCredentials | None) -> None:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        self.url = url
        self._target = f"{host}:{parts.port or (443 if secure else 80)}"
        self._credentials = credentials if secure else None
        self._channel: grpc.aio.Channel | None = None
        self._methods: dict[Method, Any] = {}
        self._connecting: asyncio.Task[bool] | None = None

    async def connected(self) -> bool:
        """Connect if there is no connection. Returns whether there is one."""
        channel = self._channel
        if channel is not None and channel.get_state() is grpc.ChannelConnectivity.READY:
            return True
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._forget_attempt)
        connecting = self._connecting
        await asyncio.wait((connecting,))
        return not connecting.cancelled() and connecting.result()

    def method(self, method: Method) -> Any:
        """Return what calls a method. There must be a connection."""
        made = self._methods.get(method)
        if made is None:
            assert self._channel is not None  # noqa: S101 - `connected` made it
            kind = self._channel.stream_stream if method is WATCH else self._channel.unary_unary
            made = self._methods[method] = kind(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.answer.FromString,
            )
        return made

    async def close(self) -> None:
        """Close the connection, and end its calls."""
        if self._connecting is not None:
            self._connecting.cancel()
        channel, self._channel = self._channel, None
        self._methods.clear()
        if channel is not None:
            await channel.close()

    def _forget_attempt(self, _: object) -> None:
        self._connecting = None

    async def _connect(self) -> bool:
        if self._channel is None:
            self._channel = (
                grpc.aio.insecure_channel(self._target, _OPTIONS)
                if self._credentials is None
                else grpc.aio.secure_channel(self._target, self._credentials, _OPTIONS)
            )
        channel = self._channel
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                while (state := channel.get_state(try_to_connect=True)) not in _SETTLED:
                    await channel.wait_for_state_change(state)
        except TimeoutError:
            state = None
        if state is grpc.ChannelConnectivity.READY:
            return True
        # gRPC would wait before it tries again; a new channel does not.
        self._channel = None
        self._methods.clear()
        await channel.close()
        return False


_SETTLED = frozenset({
    grpc.ChannelConnectivity.READY,
    grpc.ChannelConnectivity.TRANSIENT_FAILURE,
    grpc.ChannelConnectivity.SHUTDOWN,
})  # fmt: skip


class Client:
    """Connections to the members of one etcd.

    A call goes to the first reachable member. A call that a member may have received is not repeated.
    """

    def __init__(self, endpoints: Sequence[str], certificates: Certificates | None = None) -> None:
        """Prepare connections. They are opened on demand.

        Args:
            endpoints: URLs of the members, such as `http://127.0.0.1:2379`.
            certificates: For https. None: the system's authorities, and no certificate of this client.

        Raises:
            OSError: A file cannot be read.
        """
        secure = any(each.startswith("https:") for each in endpoints)
        credentials = _credentials(certificates or Certificates()) if secure else None
        self._members = [_Member(each.rstrip("/"), credentials) for each in endpoints]

    async def call(self, method: Method, request: dict[str, Any]) -> Any:
        """Call a method, and return its answer.

        Args:
            method: Any but `WATCH`.
            request: Fields of the request.

        Raises:
            StoreUnavailable: No member answers. Whether the request took effect is not known.
            StoreFull: etcd's quota is used up.
            EtcdError: etcd refuses the request.
        """
        member = await self._connected()
        try:
            answer = await member.method(method)(method.request(**request), timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise self._explained(member, error) from None
        except asyncio.CancelledError:
            raise _unless_cancelled("the connection was closed") from None
        return _understood(answer)

    async def watch(self, request: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """Open a watch, and yield its messages until it is closed.

        Args:
            request: Fields of the `WatchCreateRequest`.

        Raises:
            StoreUnavailable: The connection is lost, or the server closed it.
        """
        member = await self._connected()
        call = member.method(WATCH)(metadata=_WITH_LEADER)
        try:
            await call.write(messages.WatchRequest(create_request=request))
            while (answer := await call.read()) is not grpc.aio.EOF:
                yield _understood(answer)
        except grpc.aio.AioRpcError as error:
            raise self._explained(member, error) from None
        except asyncio.InvalidStateError:
            self._move_on_from(member)
            raise StoreUnavailable("etcd ended a watch") from None
        except asyncio.CancelledError:
            raise _unless_cancelled("the connection was closed") from None
        finally:
            call.cancel()
        raise StoreUnavailable("etcd ended a watch")

    def move_on(self) -> None:
        """Make the next member the first one to be tried."""
        self._members = [*self._members[1:], *self._members[:1]]

    async def close(self) -> None:
        """Close all connections."""
        for member in self._members:
            await member.close()

    async def _connected(self) -> _Member:
        for member in list(self._members):
            if await member.connected():
                return member
            # The member has not received the request, so the next one can get it.
            self._move_on_from(member)
        raise StoreUnavailable(f"etcd does not answer at {', '.join(each.url for each in self._members)}")

    def _move_on_from(self, member: _Member) -> None:
        if self._members[0] is member:  # another call may have moved on already
            self.move_on()

    def _explained(self, member: _Member, error: grpc.aio.AioRpcError) -> StoreError:
        code, message = error.code(), error.details() or error.code().name
        if code in _OF_THE_MEMBER:
            self._move_on_from(member)
        if NO_SPACE in message:
            return StoreFull(
                "etcd's database is full: compact, defragment, disarm its alarm, or raise its quota"
            )
        if code in _TEMPORARY and TOO_LARGE not in message:
            return StoreUnavailable(f"etcd: {message}")
        return EtcdError(message)


def _understood(answer: Any) -> Any:
    if answer is None:  # gRPC's result if a message cannot be decoded
        raise StoreUnavailable("not an answer of etcd")
    return answer


def _unless_cancelled(why: str) -> BaseException:
    """Return the error of a call that gRPC cancelled, or CancelledError if this task is cancelled."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return asyncio.CancelledError()
    return StoreUnavailable(f"etcd does not answer: {why}")


def _credentials(files: Certificates) -> grpc.ChannelCredentials:
    authorities = _system_authorities() if files.authority is None else files.authority.read_bytes()
    key = None if files.key is None else files.key.read_bytes()
    certificate = None if files.certificate is None else files.certificate.read_bytes()
    return grpc.ssl_channel_credentials(authorities, key, certificate)


def _system_authorities() -> bytes | None:
    """Return the authorities that the system trusts, as PEM, or None for those of gRPC."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile:
        return Path(paths.cafile).read_bytes()
    # OpenSSL finds a certificate in such a folder by the hash of its name.
    folder = sorted(Path(paths.capath).glob("*.[0-9]")) if paths.capath else []
    return b"\n".join(each.read_bytes() for each in folder) or None
