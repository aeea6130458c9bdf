"""A fake etcd with its gRPC API: keys, transactions, leases, history, watches in memory, and injected faults."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
import grpc.aio

from vcsync.apiserver.storage import etcd_client, etcd_messages
from vcsync.apiserver.storage.etcd_messages import DELETE, LESS, MOD

Refusal = tuple[grpc.StatusCode, str]
"""The code and the message of an error."""
COMPACTED = (grpc.StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
FUTURE = (grpc.StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision")
NO_LEASE = (grpc.StatusCode.NOT_FOUND, "etcdserver: requested lease not found")

RANGE, PUT, TXN, COMPACT, GRANT, WATCH = (
    each.path
    for each in (
        etcd_client.RANGE,
        etcd_client.PUT,
        etcd_client.TXN,
        etcd_client.COMPACT,
        etcd_client.GRANT,
        etcd_client.WATCH,
    )
)


class Refused(Exception):
    """A request is answered with an error."""

    def __init__(self, answer: Refusal) -> None:
        super().__init__(answer)
        self.answer = answer


@dataclass(frozen=True)
class Entry:
    """One key in one version."""

    key: bytes
    value: bytes
    created: int
    revision: int

    def shown(self, *, keys_only: bool = False) -> dict[str, Any]:
        """Return the fields of a `KeyValue`."""
        return {
            "key": self.key,
            "create_revision": self.created,
            "mod_revision": self.revision,
            "value": b"" if keys_only else self.value,
        }


Answer = Refusal | dict[str, Any] | bytes
"""A refusal, fields of an answer, or bytes instead of one."""


class StandIn:
    """The server.

    Attributes:
        revision: The newest revision.
        asked: Paths of all requests so far.
        grants: Time to live of each granted lease.
        mute: Whether watches send nothing.
        answers: Path -> answers to the next requests that replace the real ones, in order.
        before: Called with the path and the request before the answer.
        held: Calls are answered once it is set.
    """

    def __init__(self) -> None:
        self.url = ""
        self.revision = 1
        self.compacted = 0
        self.states: dict[int, dict[bytes, Entry]] = {1: {}}
        self.events: list[dict[str, Any]] = []
        self.asked: Counter[str] = Counter()
        self.grants: list[int] = []
        self.leases: set[int] = set()
        self.mute = False
        self.answers: dict[str, list[Answer]] = {}
        self.before: Callable[[str, Any], None] = lambda *_: None
        self.held: asyncio.Event | None = None
        self._watches: dict[asyncio.Queue[list[dict[str, Any]] | None], tuple[bytes, bytes]] = {}
        self._server: grpc.aio.Server | None = None

    async def start(self, port: int = 0, credentials: grpc.ServerCredentials | None = None) -> None:
        self._server = grpc.aio.server()
        calls = {
            etcd_client.RANGE: self._range,
            etcd_client.PUT: self._put,
            etcd_client.TXN: self._txn,
            etcd_client.COMPACT: self._compact,
            etcd_client.GRANT: self._grant,
        }
        for method, act in calls.items():
            self._serve(
                method, grpc.unary_unary_rpc_method_handler(self._answering(method, act), *_coding(method))
            )
        self._serve(WATCH_METHOD, grpc.stream_stream_rpc_method_handler(self._watch, *_coding(WATCH_METHOD)))
        at = f"127.0.0.1:{port}"
        if credentials is None:
            self.url = f"http://127.0.0.1:{self._server.add_insecure_port(at)}"
        else:
            self.url = f"https://127.0.0.1:{self._server.add_secure_port(at, credentials)}"
        await self._server.start()

    def _serve(self, method: etcd_client.Method, handler: grpc.RpcMethodHandler) -> None:
        assert self._server is not None
        _, service, name = method.path.split("/")
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {name: handler}),)
        )

    async def stop(self) -> None:
        self.cut()
        if self._server is not None:
            await self._server.stop(0)

    def cut(self) -> None:
        """End all watches."""
        for queue in self._watches:
            queue.put_nowait(None)

    @property
    def objects(self) -> dict[bytes, Entry]:
        return self.states[self.revision]

    @property
    def watches(self) -> int:
        """Number of open watches."""
        return len(self._watches)

    # Operations

    def _answering(self, method: etcd_client.Method, act: Callable[[Any], dict[str, Any]]) -> Any:
        async def answer(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            self.asked[method.path] += 1
            self.before(method.path, request)
            if self.held is not None:
                await self.held.wait()
            if waiting := self.answers.get(method.path):
                given = waiting.pop(0)
                if isinstance(given, tuple):
                    await context.abort(*given)
                return given if isinstance(given, bytes) else method.answer(**given)
            try:
                fields = act(request)
            except Refused as refused:
                await context.abort(*refused.answer)
            return method.answer(header={"revision": self.revision}, **fields)

        return answer

    def _range(self, request: Any) -> dict[str, Any]:
        revision = request.revision or self.revision
        if revision > self.revision:
            raise Refused(FUTURE)
        if revision < self.compacted:
            raise Refused(COMPACTED)
        found = self._found(request, self.states[revision])
        limit = request.limit or len(found)
        if request.count_only:
            return {"count": len(found)}
        kvs = [each.shown(keys_only=request.keys_only) for each in found[:limit]]
        return {"kvs": kvs, "more": len(found) > limit, "count": len(found)}

    def _found(self, request: Any, state: dict[bytes, Entry]) -> list[Entry]:
        key, end = request.key, request.range_end
        if not end:
            return [state[key]] if key in state else []
        return sorted((each for each in state.values() if key <= each.key < end), key=lambda each: each.key)

    def put(self, key: bytes, value: bytes = b"") -> None:
        """Write a key, as another client does."""
        self._put(etcd_messages.PutRequest(key=key, value=value))

    def delete(self, key: bytes) -> None:
        """Delete a key, as another client does."""
        self._apply(etcd_messages.TxnRequest(success=[{"request_delete_range": {"key": key}}]).success)

    def _put(self, request: Any) -> dict[str, Any]:
        self._apply(etcd_messages.TxnRequest(success=[{"request_put": request}]).success)
        return {}

    def _txn(self, request: Any) -> dict[str, Any]:
        if all(self._holds(each) for each in request.compare):
            self._apply(request.success)
            return {"succeeded": True, "responses": [{} for _ in request.success]}
        reads = [{"response_range": self._range(each.request_range)} for each in request.failure]
        return {"responses": reads}

    def _holds(self, compare: Any) -> bool:
        assert compare.target == MOD
        assert compare.HasField("mod_revision")
        if compare.result == LESS:
            return all(each.revision < compare.mod_revision for each in self._found(compare, self.objects))
        found = self.objects.get(compare.key)
        return (found.revision if found else 0) == compare.mod_revision

    def _apply(self, operations: Any) -> None:
        """Execute all operations at one new revision, or none if one is refused."""
        objects, revision, events = dict(self.objects), self.revision + 1, []
        for operation in flat(operations):
            delete = operation.HasField("request_delete_range")
            request = operation.request_delete_range if delete else operation.request_put
            if not delete and request.lease and request.lease not in self.leases:
                raise Refused(NO_LEASE)
            old = objects.get(request.key)
            if delete:
                if old is None:
                    continue
                del objects[request.key]
                event: dict[str, Any] = {
                    "type": DELETE,
                    "kv": {"key": request.key, "mod_revision": revision},
                }
            else:
                created = old.created if old else revision
                objects[request.key] = Entry(request.key, request.value, created, revision)
                event = {"kv": objects[request.key].shown()}
            events.append({**event, **({"prev_kv": old.shown()} if old else {})})
        if events:
            self.revision, self.states[revision] = revision, objects
            self.events += events
            for queue, bounds in self._watches.items():
                queue.put_nowait(within(events, *bounds))

    def _compact(self, request: Any) -> dict[str, Any]:
        if request.revision > self.revision:
            raise Refused(FUTURE)
        if request.revision <= self.compacted:
            raise Refused(COMPACTED)
        self.compacted = request.revision
        return {}

    def _grant(self, request: Any) -> dict[str, Any]:
        self.grants.append(request.TTL)
        self.leases.add(len(self.grants))
        return {"ID": len(self.grants)}

    async def _watch(
        self, requests: AsyncIterator[Any], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[Any]:
        asked = (await anext(requests)).create_request
        self.asked[WATCH] += 1
        self.before(WATCH, asked)
        assert ("hasleader", "true") in (context.invocation_metadata() or ())
        if waiting := self.answers.get(WATCH):
            await self._end_watch(waiting.pop(0), context)
        start, bounds = asked.start_revision, (asked.key, asked.range_end)
        assert asked.prev_kv
        queue: asyncio.Queue[list[dict[str, Any]] | None] = asyncio.Queue()
        header = {"revision": self.revision}
        yield etcd_messages.WatchResponse(header=header, created=True)
        if start < self.compacted:
            yield etcd_messages.WatchResponse(header=header, canceled=True, compact_revision=self.compacted)
            return
        for revision in range(max(start, 1), self.revision + 1):
            at_once = within([each for each in self.events if revision_of(each) == revision], *bounds)
            if revision <= self.compacted:  # the previous value is compacted
                at_once = [{**each, "prev_kv": None} for each in at_once]
            queue.put_nowait(at_once)
        self._watches[queue] = bounds
        try:
            while (events := await queue.get()) is not None:
                if events and not self.mute:
                    yield etcd_messages.WatchResponse(header=header, events=events)
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection is cut")
        finally:
            self._watches.pop(queue, None)

    @staticmethod
    async def _end_watch(answer: Answer, context: grpc.aio.ServicerContext[Any, Any]) -> NoReturn:
        assert isinstance(answer, tuple)
        await context.abort(*answer)
        raise AssertionError("abort raises")


WATCH_METHOD = etcd_client.WATCH


def _coding(method: etcd_client.Method) -> tuple[Any, Any]:
    """Return the decoder of requests and the encoder of answers."""

    def encode(answer: Any) -> bytes:
        return answer if isinstance(answer, bytes) else bytes(answer.SerializeToString())

    return method.request.FromString, encode


def flat(operations: Any) -> list[Any]:
    """Return operations with inner transactions replaced by their operations."""
    return [
        inner
        for each in operations
        for inner in (flat(each.request_txn.success) if each.HasField("request_txn") else [each])
    ]


def revision_of(event: dict[str, Any]) -> int:
    return int(event["kv"]["mod_revision"])


def within(events: list[dict[str, Any]], key: bytes, end: bytes) -> list[dict[str, Any]]:
    """Return the events of keys in a range."""
    return [each for each in events if key <= each["kv"]["key"] < end]
