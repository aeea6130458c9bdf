"""The client of etcd's gRPC API: members, errors, TLS, and calls that end early."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.unit.apiserver.storage import etcd_standin
from tests.unit.apiserver.storage.etcd_standin import StandIn
from vcsync.apiserver.storage import etcd_client, etcd_messages
from vcsync.apiserver.storage.etcd_client import GRANT, PUT, RANGE, Certificates, Client, EtcdError
from vcsync.apiserver.storage.interface import StoreError, StoreFull, StoreUnavailable
from vcsync.apiserver.tenants import pki


@pytest.fixture
async def members() -> AsyncIterator[list[StandIn]]:
    made = [StandIn(), StandIn()]
    for each in made:
        await each.start()
    yield made
    for each in made:
        await each.stop()


@pytest.fixture
async def client(members: list[StandIn]) -> AsyncIterator[Client]:
    made = Client([f"{members[0].url}/", members[1].url])
    yield made
    await made.close()


def asked(members: list[StandIn], method: etcd_client.Method = RANGE) -> list[int]:
    return [each.asked[method.path] for each in members]


async def disconnected(client: Client) -> None:
    """Wait until a client knows that its first member has closed the connection."""
    channel = client._members[0]._channel
    async with asyncio.timeout(60):
        while channel is not None and (state := channel.get_state()) is grpc.ChannelConnectivity.READY:
            await channel.wait_for_state_change(state)


WATCH_ALL: dict[str, Any] = {"key": b"k", "range_end": b"l", "start_revision": 1, "prev_kv": True}


def test_a_condition_on_revision_0_is_sent() -> None:
    compare = {"target": etcd_messages.MOD, "result": etcd_messages.EQUAL, "key": b"k", "mod_revision": 0}
    sent = etcd_messages.TxnRequest(compare=[compare]).SerializeToString()
    assert sent == bytes.fromhex("0a09 0800 1002 1a016b 3000")


async def test_a_call_returns_what_etcd_answers(client: Client, members: list[StandIn]) -> None:
    written = await client.call(PUT, {"key": b"k", "value": b"\xff"})
    assert written.header.revision == 2
    found = await client.call(RANGE, {"key": b"k"})
    assert [(each.key, each.value, each.mod_revision) for each in found.kvs] == [(b"k", b"\xff", 2)]
    assert (await client.call(GRANT, {"TTL": 60})).ID == 1
    assert asked(members) == [1, 0]


async def test_a_member_that_is_gone_is_skipped_and_tried_last_from_then_on(
    client: Client, members: list[StandIn]
) -> None:
    await members[0].stop()
    for _ in range(2):
        await client.call(RANGE, {"key": b"k"})
    assert asked(members) == [0, 2]
    assert [each.url for each in client._members] == [members[1].url, members[0].url]


async def test_members_that_are_all_gone_are_named_and_used_once_they_are_back(
    members: list[StandIn],
) -> None:
    first = members[0]
    port = int(first.url.rpartition(":")[2])
    client = Client([first.url])
    await client.call(RANGE, {"key": b"k"})
    await first.stop()
    await disconnected(client)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=f"^etcd does not answer at {first.url}$"):
            await client.call(RANGE, {"key": b"k"})
    await first.start(port)
    await client.call(RANGE, {"key": b"k"})
    await client.close()


async def test_a_call_without_members_fails() -> None:
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await Client([]).call(RANGE, {"key": b"k"})


@pytest.mark.parametrize(
    ("code", "message", "kind", "expected", "moves"),
    [
        ("RESOURCE_EXHAUSTED", "etcdserver: mvcc: database space exceeded", StoreFull,
         "etcd's database is full: compact", False),
        ("CANCELLED", "cancelled", StoreUnavailable, "etcd: cancelled", False),
        ("DEADLINE_EXCEEDED", "too late", StoreUnavailable, "etcd: too late", True),
        ("RESOURCE_EXHAUSTED", "etcdserver: too many requests", StoreUnavailable, "etcd: etcdserver: too many", False),
        ("RESOURCE_EXHAUSTED", "grpc: received message larger than max (9 vs. 8)", EtcdError,
         "etcd: grpc: received message larger", False),
        ("INTERNAL", "internal", StoreUnavailable, "etcd: internal", False),
        ("UNAVAILABLE", "etcdserver: no leader", StoreUnavailable, "etcd: etcdserver: no leader", True),
        ("INVALID_ARGUMENT", "etcdserver: request is too large", EtcdError, "etcd: etcdserver: request is", False),
        ("NOT_FOUND", "requested lease not found", EtcdError, "etcd: requested lease not found", False),
        ("OUT_OF_RANGE", "compacted", EtcdError, "etcd: compacted", False),
        ("UNIMPLEMENTED", "", EtcdError, "etcd: UNIMPLEMENTED", False),
    ],
)  # fmt: skip
async def test_temporary_errors_differ_from_refusals_and_a_member_without_a_leader_is_left(
    client: Client,
    members: list[StandIn],
    code: str,
    message: str,
    kind: type[StoreError],
    expected: str,
    moves: bool,
) -> None:
    members[0].answers[RANGE.path] = [(grpc.StatusCode[code], message)]
    with pytest.raises(StoreError) as caught:
        await client.call(RANGE, {"key": b"k"})
    assert type(caught.value) is kind
    assert str(caught.value).startswith(expected)
    if isinstance(caught.value, EtcdError):
        assert caught.value.message == (message or code)
    await client.call(RANGE, {"key": b"k"})
    assert asked(members) == ([1, 1] if moves else [2, 0]), "the failed call is not repeated"


async def test_several_failed_calls_leave_a_member_once(client: Client, members: list[StandIn]) -> None:
    members[0].answers[RANGE.path] = [(grpc.StatusCode.UNAVAILABLE, "no leader")] * 2
    found = await asyncio.gather(
        *(client.call(RANGE, {"key": b"k"}) for _ in range(2)), return_exceptions=True
    )
    assert {type(each) for each in found} == {StoreUnavailable}
    assert client._members[0].url == members[1].url


async def test_an_answer_that_is_none_of_etcd_is_reported(client: Client, members: list[StandIn]) -> None:
    members[0].answers[RANGE.path] = [b"\xff"]
    with pytest.raises(StoreUnavailable, match=r"^not an answer of etcd$"):
        await client.call(RANGE, {"key": b"k"})


async def test_a_call_that_takes_too_long_ends(
    client: Client, members: list[StandIn], monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.call(RANGE, {"key": b"k"})
    members[0].held = asyncio.Event()
    monkeypatch.setattr(etcd_client, "CALL_SECONDS", 0.01)
    with pytest.raises(StoreUnavailable, match=r"(?i)deadline"):
        await client.call(RANGE, {"key": b"k"})
    assert client._members[0].url == members[1].url


async def test_a_member_to_which_no_connection_comes_about_is_skipped(
    members: list[StandIn], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_client, "CONNECT_SECONDS", 0.01)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Client([f"http://127.0.0.1:{silent.getsockname()[1]}"])
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await client.call(RANGE, {"key": b"k"})
        await client.close()


async def test_a_cancelled_call_is_cancelled_and_the_connection_stays(
    client: Client, members: list[StandIn]
) -> None:
    reached = asyncio.Event()
    members[0].before = lambda *_: reached.set()
    members[0].held = asyncio.Event()
    call = asyncio.create_task(client.call(RANGE, {"key": b"k"}))
    await reached.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    members[0].held.set()
    await client.call(RANGE, {"key": b"k"})
    assert asked(members) == [2, 0]


async def test_calls_and_watches_on_a_closed_connection_fail_without_cancelling_their_tasks(
    client: Client, members: list[StandIn]
) -> None:
    async def watched() -> None:
        async for answer in client.watch(WATCH_ALL):
            if answer.created:
                open_.set()

    open_ = asyncio.Event()
    watch = asyncio.create_task(watched())
    await open_.wait()
    await client.close()
    with pytest.raises(StoreUnavailable):
        await watch
    assert not watch.cancelled()


async def test_a_watch_yields_messages_and_is_ended_when_it_is_closed(
    client: Client, members: list[StandIn]
) -> None:
    await client.call(PUT, {"key": b"k", "value": b"1"})
    async with aclosing(client.watch(WATCH_ALL)) as answers:
        assert (await anext(answers)).created
        (event,) = (await anext(answers)).events
        assert (event.kv.key, event.kv.value, event.HasField("prev_kv")) == (b"k", b"1", False)
        assert members[0].watches == 1
    async with asyncio.timeout(20):
        while members[0].watches:
            await asyncio.sleep(0.001)


async def test_an_interrupted_watch_is_opened_at_another_member(
    client: Client, members: list[StandIn]
) -> None:
    members[0].answers[etcd_standin.WATCH] = [(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")]
    with pytest.raises(StoreUnavailable, match="no leader"):
        await anext(client.watch(WATCH_ALL))
    async with aclosing(client.watch(WATCH_ALL)) as answers:
        assert (await anext(answers)).created
    assert asked(members, etcd_client.WATCH) == [1, 1]


@pytest.mark.parametrize("url", ["http://[::1]:2379", "https://[::1]"])
def test_addresses_of_members(url: str) -> None:
    member = etcd_client._Member(url, None)
    assert member._target == ("[::1]:2379" if url.startswith("http:") else "[::1]:443")


async def test_members_are_reached_by_https_with_a_certificate(tmp_path: Path) -> None:
    authority, other = (pki.new_authority(name, time.time()) for name in ("etcd", "other"))
    serving = pki.issue_serving(authority, ["127.0.0.1"], time.time())
    pairs = {name: pki.issue_client(of, "vcsync", (), time.time()) for name, of in
             (("own", authority), ("wrong", other))}  # fmt: skip
    files = {"ca": authority.certificate, "other-ca": other.certificate}
    for name, pair in pairs.items():
        files |= {f"{name}.crt": pair.certificate, f"{name}.key": pair.key}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    member = StandIn()
    await member.start(
        credentials=grpc.ssl_server_credentials(
            [(serving.key.encode(), serving.certificate.encode())], authority.certificate.encode(), True
        )
    )
    for ca, own, works in (("ca", "own", True), ("other-ca", "own", False), ("ca", "wrong", False)):
        certificates = Certificates(tmp_path / ca, tmp_path / f"{own}.crt", tmp_path / f"{own}.key")
        client = Client([member.url], certificates)
        if works:
            await client.call(RANGE, {"key": b"k"})
        else:
            with pytest.raises(StoreUnavailable, match=r"^etcd"):
                await client.call(RANGE, {"key": b"k"})
        await client.close()
    assert member.asked[RANGE.path] == 1
    await member.stop()


def test_a_process_with_a_file_does_not_load_grpc() -> None:
    code = "import sys, vcsync.cli.controlplane.process; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("as_file", [True, False])
def test_the_authorities_of_the_system_are_a_file_or_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_file: bool
) -> None:
    (tmp_path / "all.pem").write_bytes(b"all")
    for name in ("b.0", "a.0", "other.pem"):
        (tmp_path / name).write_bytes(name.encode())
    cafile = str(tmp_path / "all.pem") if as_file else None
    paths = ssl.DefaultVerifyPaths(cafile, str(tmp_path), "", "", "", "")
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    assert etcd_client._system_authorities() == (b"all" if as_file else b"a.0\nb.0")


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Client(["https://127.0.0.1:1"], Certificates(Path("/nowhere")))


_FORKS = """
import asyncio, os, sys, time
from vcsync.apiserver.storage.etcd_client import RANGE, Client

async def main():
    client = Client([sys.argv[1]])
    await client.call(RANGE, {"key": b"a"})
    child = os.fork()
    if not child:
        time.sleep(0.2)
        os._exit(len(os.listdir("/proc/self/task")))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    await client.close()

asyncio.run(main())
"""


async def test_a_forked_child_has_no_threads_of_grpc(members: list[StandIn]) -> None:
    """They crashed offload processes between their fork and the execution of their program."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _FORKS, members[0].url, stdout=subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output.decode().strip() == "1"
