"""kubectl logs, exec, cp, attach and port-forward of tenants' Pods on a super cluster, and what hostile tenants get.

The super cluster r1 is a kube-apiserver whose kubelet runs real commands; r2 is hollow.
"""

import asyncio
import base64
import contextlib
import json
import os
import signal
import socket
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import (
    ClientSession,
    ClientWebSocketResponse,
    ClientWSTimeout,
    TCPConnector,
    WSMsgType,
    WSServerHandshakeError,
)
from kubelet_kit import POD
from streams_kit import DEADLINE, PROTOCOLS, Pool, User, streams_pool

from hack.testbed import Cluster
from tests.real.up_kit import operator
from tests.real.waiting import eventually, limit
from vcsync.api import names
from vcsync.apiserver.kubelets.client import MAX_STREAMS

PODS = "/api/v1/namespaces/default/pods"
MISSING = f'pod "{POD}" does not exist on its node'


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with streams_pool(tmp_path_factory) as found:
        yield found


@pytest.fixture(scope="module", params=["acme", "outside"])
def user(pool: Pool, request: pytest.FixtureRequest) -> User:
    """The administrator of a tenant with an embedded control plane, and of one with a kube-apiserver."""
    found: User = getattr(pool, request.param)
    return found


@pytest.mark.timeout(600)
def test_logs(user: User) -> None:
    eventually(lambda: "web c: line" in user.kubectl("logs", POD))
    last = user.kubectl("logs", POD, "-c", "c", "--tail", "1", "--timestamps", "--since", "1h")
    assert len(last.splitlines()) == 1
    assert "Z web c: line" in last
    assert user.kubectl("logs", POD, "--all-containers", "--prefix", "--tail=1").startswith("[pod/web/c] web")
    assert 'previous terminated container "c" in pod "web" not found' in user.refused(
        "logs", POD, "--previous"
    )
    with user.running("logs", "-f", POD, "--tail=1") as session:
        assert session.stdout is not None
        assert [session.stdout.readline()[:10] for _ in range(2)] == ["web c: lin"] * 2
        session.kill()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_exec_passes_input_output_and_the_exit_code(user: User, protocol: dict[str, str]) -> None:
    assert user.kubectl("exec", POD, "--", "echo", "hello", **protocol) == "hello\n"
    long = "x" * 200_000
    assert user.kubectl("exec", "-i", POD, "--", "cat", stdin=long, **protocol) == long
    failed = user.run("exec", POD, "--", "sh", "-c", "echo why >&2; exit 7", **protocol)
    assert (failed.returncode, failed.stderr.splitlines()[0]) == (7, "why")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_long_output_arrives_whole(user: User, protocol: dict[str, str]) -> None:
    size = 20_000_000
    output = user.kubectl("exec", POD, "--", "head", "-c", str(size), "/dev/zero", **protocol)
    assert len(output) == size


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_files_are_copied_in_both_directions(
    user: User, pool: Pool, tmp_path: Path, protocol: dict[str, str]
) -> None:
    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(os.urandom(300_000))
    there = f"there-{uuid.uuid4().hex[:8]}"
    user.kubectl("cp", str(sent), f"{POD}:{there}", **protocol)
    assert (pool.containers / there).read_bytes() == sent.read_bytes()
    user.kubectl("cp", f"{POD}:{there}", str(back), **protocol)
    assert back.read_bytes() == sent.read_bytes()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_attach_shows_the_output_of_a_container(user: User, protocol: dict[str, str]) -> None:
    with user.running("attach", POD, **protocol) as session:
        assert session.stdout is not None
        assert "web c: line" in session.stdout.readline()
        session.kill()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_ports_are_forwarded(user: User, protocol: dict[str, str]) -> None:
    with user.running("port-forward", POD, ":80", **protocol) as session:
        assert session.stdout is not None
        port = int(session.stdout.readline().partition("127.0.0.1:")[2].split()[0])
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert connection.makefile("rb").read().endswith(b"/web port 80\n")
        session.kill()


CHANNELS = [
    pytest.param("v4.channel.k8s.io", bytes, id="v4"),
    pytest.param("v4.base64.channel.k8s.io", str, id="v4-base64"),
    pytest.param("", bytes, id="none"),
]
"""Protocols of other clients, and whether their messages are bytes."""


def message(kind: type, channel: int, data: bytes) -> bytes | str:
    """Return a message on a channel."""
    return f"{channel}{base64.b64encode(data).decode()}" if kind is str else bytes([channel]) + data


def read(told: Any) -> tuple[int, bytes]:
    """Return the channel and the data of a message."""
    if isinstance(told, str):
        return int(told[0]), base64.b64decode(told[1:])
    return told[0], told[1:]


@contextlib.asynccontextmanager
async def stream(
    user: User, path: str, *protocols: str, tls: ssl.SSLContext | None = None, **headers: str
) -> AsyncIterator[ClientWebSocketResponse]:
    """Open a WebSocket below the user's API server, with the user's credentials unless `tls` is given."""
    own = {} if tls else user.headers
    try:
        async with (
            ClientSession() as session,
            session.ws_connect(
                f"{user.server}{path}",
                ssl=tls or user.tls(),
                headers=own | headers,
                protocols=[each for each in protocols if each],
                timeout=ClientWSTimeout(ws_close=1),
            ) as found,
        ):
            assert (found.protocol or "") in protocols
            yield found
    finally:
        await asyncio.sleep(0.25)  # the end of TLS takes a few turns of the loop


async def data_of(found: ClientWebSocketResponse) -> tuple[int, bytes]:
    """Return the channel and the data of the next message."""
    return read((await found.receive(timeout=limit(DEADLINE))).data)


@pytest.mark.parametrize(
    ("protocol", "kind"),
    [
        *CHANNELS,
        pytest.param("channel.k8s.io", bytes, id="first"),
        pytest.param("base64.channel.k8s.io", str, id="first-base64"),
    ],
)
async def test_other_clients_run_commands(user: User, protocol: str, kind: type) -> None:
    """Python's client sends input as text, whatever the protocol."""
    query = "command=cat&stdin=true&stdout=true&container=c"
    async with stream(user, f"{PODS}/{POD}/exec?{query}", protocol) as found:
        assert await data_of(found) == (1, b""), "the connection stands"
        await found.send_str(str(message(str, 0, b"hello\n")) if kind is str else "\x00hello\n")
        assert await data_of(found) == (1, b"hello\n")


@pytest.mark.parametrize(("protocol", "kind"), CHANNELS)
async def test_other_clients_forward_ports(user: User, protocol: str, kind: type) -> None:
    """The clients for Python, JavaScript and Java use a channel for data and one for errors of each port."""
    async with stream(user, f"{PODS}/{POD}/portforward?ports=80", protocol) as found:
        assert sorted([await data_of(found) for _ in range(2)]) == [(0, b"\x50\x00"), (1, b"\x50\x00")]
        asked = message(kind, 0, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await (found.send_str(asked) if isinstance(asked, str) else found.send_bytes(asked))
        channel, data = await data_of(found)
        assert (channel, data.endswith(b"/web port 80\n")) == (0, True)


async def test_watches_are_read_from_websockets(user: User) -> None:
    """As by fabric8's Java client and browsers."""
    path = f"{PODS}?watch=true&fieldSelector=metadata.name={POD}&timeoutSeconds=5"
    async with stream(user, path, "", Origin="https://browser.example") as found:
        event = json.loads((await found.receive(timeout=limit(DEADLINE))).data)
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", POD)
        while (last := await found.receive(timeout=limit(DEADLINE))).type is WSMsgType.TEXT:
            pass
        assert last.type in (WSMsgType.CLOSE, WSMsgType.CLOSED)


async def test_a_browser_sends_its_token_among_the_protocols(user: User) -> None:
    user.kubectl("create", "serviceaccount", "browser")
    user.kubectl(
        "create", "rolebinding", "browser", "--clusterrole=admin", "--serviceaccount=default:browser"
    )
    token = base64.urlsafe_b64encode(user.kubectl("create", "token", "browser").strip().encode())
    bearer = f"base64url.bearer.authorization.k8s.io.{token.decode().rstrip('=')}"
    stranger = ssl.create_default_context(cadata=user.authority)
    query = "command=echo&command=hi&stdout=true&container=c"
    path = f"{PODS}/{POD}/exec?{query}"
    async with stream(user, path, bearer, "v4.channel.k8s.io", tls=stranger) as found:
        assert found.protocol == "v4.channel.k8s.io"
        assert await data_of(found) == (1, b"")
        assert await data_of(found) == (1, b"hi\n")
    wrong = "base64url.bearer.authorization.k8s.io.bm8"
    with pytest.raises(WSServerHandshakeError) as refused:
        async with stream(user, path, wrong, "v4.channel.k8s.io", tls=stranger):
            pass
    assert refused.value.status == 401


def test_the_credentials_permit_nothing_else(pool: Pool, tmp_path: Path) -> None:
    stored = operator(
        pool.up,
        "kubectl get secret -n vcsync-system streams-r1 -o 'jsonpath={.data.kubeconfig}' | base64 -d",
    )
    kubeconfig = tmp_path / "streams.kubeconfig"
    kubeconfig.write_text(stored)
    streams = User(kubeconfig)
    placed = json.loads(
        pool.r1.kubectl("get", "namespaces", "-l", "tenancy.x-k8s.io/controlled", "-o", "json")
    )
    ours = next(
        each["metadata"]["name"] for each in placed["items"] if each["metadata"]["name"].endswith("-default")
    )
    for verb, resource, namespace, may in (
        ("get", "pods", ours, "yes"),
        ("get", "pods/log", ours, "yes"),
        ("create", "pods/exec", ours, "yes"),
        ("list", "pods", ours, "no"),
        ("create", "pods", ours, "no"),
        ("get", "secrets", ours, "no"),
        ("get", "pods", "kube-system", "no"),
        ("create", "pods/exec", "kube-system", "no"),
        ("create", "pods/exec", "vcsync-system", "no"),
    ):
        plural, _, subresource = resource.partition("/")
        further = ["--subresource", subresource] if subresource else []
        answer = streams.run("auth", "can-i", verb, plural, *further, "-n", namespace)
        assert answer.stdout.strip() == may, (verb, resource, namespace)


async def opened(user: User, session: ClientSession, tls: ssl.SSLContext) -> ClientWebSocketResponse:
    """Open a stream to a command that returns its input."""
    query = "command=cat&stdin=true&stdout=true&container=c"
    path = f"/api/v1/namespaces/default/pods/{POD}/exec?{query}"
    return await session.ws_connect(
        f"{user.server}{path}",
        ssl=tls,
        headers=user.headers,
        protocols=["v5.channel.k8s.io"],
        timeout=ClientWSTimeout(ws_close=1),
    )


async def echoed(stream: ClientWebSocketResponse) -> bytes:
    """Send a line to a command, and return what comes back."""
    await stream.send_bytes(b"\x00hello\n")
    while not (piece := await stream.receive_bytes(timeout=limit(DEADLINE)))[1:]:
        pass
    return piece


async def answering(user: User, session: ClientSession, tls: ssl.SSLContext) -> ClientWebSocketResponse:
    """Open a stream, and wait until its command answers."""
    stream = await opened(user, session, tls)
    await echoed(stream)
    return stream


async def refusal(user: User, session: ClientSession, tls: ssl.SSLContext) -> str:
    """Return why no further stream is opened. A kube-apiserver opens its connection before it asks the kubelet."""
    try:
        stream = await opened(user, session, tls)
    except WSServerHandshakeError as error:
        return "too many streams are open" if error.status == 429 else str(error)
    while (piece := await stream.receive_bytes(timeout=limit(DEADLINE)))[:1] != b"\x03":
        pass
    return piece.decode()


@pytest.mark.timeout(600)
async def test_a_thousand_idle_streams_are_open_and_no_more(user: User) -> None:
    tls = user.tls()
    async with ClientSession(connector=TCPConnector(limit=0)) as session:
        # A kube-apiserver opens a stream before it reaches the kubelet, whose connections have a rate.
        streams = [await answering(user, session, tls) for _ in range(MAX_STREAMS)]
        assert "too many streams are open" in await refusal(user, session, tls)
        for each in (streams[0], streams[-1]):
            assert await echoed(each) == b"\x01hello\n"
        await asyncio.gather(*(each.close() for each in streams))
    eventually(lambda: user.kubectl("exec", POD, "--", "echo", "again") == "again\n")


# ---- Attacks -----------------------------------------------------------------------------------------------------------


def forged(node: str, label: str = "") -> dict[str, Any]:
    """Return a Pod that claims a node, and that no syncer copies."""
    labels = {names.IGNORE_SYNC: names.TRUE, **({names.SUPER_CLUSTER: label} if label else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"forged-{uuid.uuid4().hex[:8]}", "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "example.org/web:1"}]},
    }


@pytest.mark.parametrize(
    ("node", "label"),
    [
        ("node-0.r1", "r1"),
        ("node-0.r1", "r2"),
        ("node-0.r2", "r1"),
        ("node-0.r9", "r9"),
        ("node-0", ""),
        ("r1", "r1"),
        ("node-0.vcsync-system.r1", "r1"),
        ("node-0.system", "system"),
    ],
)
def test_a_forged_node_leads_nowhere(pool: Pool, node: str, label: str) -> None:
    """The names of real, hollow and missing super clusters get the same answer."""
    body = forged(node, label)
    name = body["metadata"]["name"]
    pool.umbrella.kubectl("create", "-f", "-", stdin=json.dumps(body))
    expected = f'pod "{name}" does not exist on its node'
    assert expected in pool.umbrella.refused("logs", name)
    assert expected in pool.umbrella.refused("exec", name, "--", "true")
    pool.umbrella.kubectl("delete", "pod", name, "--force", "--grace-period=0")


def test_a_pod_of_another_tenant_is_not_reached_by_its_name(pool: Pool) -> None:
    """The other tenant has a Pod of that name, in a namespace of that name, on that node."""
    pool.place(pool.acme, "only-acmes")
    node = pool.acme.kubectl("get", "pod", "only-acmes", "-o", "jsonpath={.spec.nodeName}")
    body = forged(node, "r1")
    body["metadata"]["name"] = "only-acmes"
    pool.umbrella.kubectl("create", "-f", "-", stdin=json.dumps(body))
    assert 'pod "only-acmes" does not exist on its node' in pool.umbrella.refused("logs", "only-acmes")
    assert "only-acmes c: line" in eventually(lambda: pool.acme.kubectl("logs", "only-acmes"))


def test_a_pod_with_another_uid_is_not_reached(pool: Pool) -> None:
    """The tenant's Pod is replaced by one of the same name, and the copy of the first one is still there."""
    pool.place(pool.acme, "replaced")
    copies = pool.r1.kubectl("get", "pods", "-A", "-o", "json")
    copy = next(each for each in json.loads(copies)["items"] if each["metadata"]["name"] == "replaced")
    where = ("-n", copy["metadata"]["namespace"])
    hold = json.dumps({"metadata": {"finalizers": ["example.org/hold"]}})
    pool.r1.kubectl("patch", "pod", "replaced", *where, "--type=merge", "-p", hold)
    node = pool.acme.kubectl("get", "pod", "replaced", "-o", "jsonpath={.spec.nodeName}")
    pool.acme.kubectl("delete", "pod", "replaced", "--force", "--grace-period=0")
    body = forged(node, "r1")
    body["metadata"]["name"] = "replaced"
    eventually(lambda: pool.acme.run("create", "-f", "-", stdin=json.dumps(body)).returncode == 0)
    assert 'pod "replaced" does not exist on its node' in pool.acme.refused("logs", "replaced")
    assert "does not exist on its node" in pool.acme.refused("exec", "replaced", "--", "true")
    pool.r1.kubectl(
        "patch", "pod", "replaced", *where, "--type=merge", "-p", '{"metadata":{"finalizers":null}}'
    )


@pytest.mark.parametrize(
    "target",
    [
        f"{PODS}/..%2f..%2fkube-system%2fpods%2f{POD}/log",
        f"{PODS}/{POD}%2flog",
        f"{PODS}/{POD}/log/../exec",
        f"{PODS}/{POD}/log%2f..%2fexec",
        f"/api/v1/namespaces/..%2fkube-system/pods/{POD}/log",
        f"{PODS}/{POD}/log?container=..%2f..%2fsecrets",
        f"{PODS}/{POD}/log?container=c%3Fas%3Dx",
        f"{PODS}/{POD}/exec?command=ls&container=c%0d%0aX-A:%20b",
        f"{PODS}/{POD}/proxy/metrics",
        f"{PODS}/%00/log",
    ],
)
def test_odd_paths_are_refused(pool: Pool, target: str) -> None:
    prefix = urlsplit(pool.umbrella.server).path
    answer = pool.umbrella.ask(f"GET {prefix}{target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith("HTTP/1.1 "), answer
    assert answer.split(" ")[1] in {"301", "400", "404", "405", "501"}, answer
    assert "vcsync-system" not in answer


@pytest.mark.parametrize(
    "header",
    [
        "Connection: Upgrade, Authorization\r\nUpgrade: h2c",
        "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
        "Connection: Upgrade\r\nUpgrade: TLS/1.3",
        "Connection: close\r\nUpgrade: websocket",
        "Connection: Upgrade\r\nUpgrade: websocket\r\n\tX-A: b",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
    ],
)
def test_odd_upgrades_are_refused(pool: Pool, header: str) -> None:
    prefix = urlsplit(pool.acme.server).path
    target = f"{prefix}{PODS}/{POD}/exec?command=true&stdout=true"
    answer = pool.acme.ask(f"GET {target} HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n")
    assert answer.startswith("HTTP/1.1 4"), answer


def test_no_other_identity_reaches_the_super_cluster(pool: Pool) -> None:
    """Headers that a kube-apiserver reads are not sent on: with them it would refuse the role, or run the command."""
    prefix = urlsplit(pool.acme.server).path
    target = f"{prefix}{PODS}/{POD}/log?tailLines=1"
    headers = "X-Remote-User: system:admin\r\nX-Remote-Group: system:masters\r\nX-Forwarded-For: 10.0.0.1"
    answer = pool.acme.ask(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n\r\n")
    assert answer.startswith("HTTP/1.1 200 "), answer


# ---- Ends --------------------------------------------------------------------------------------------------------------


def test_a_revoked_certificate_ends_every_stream(pool: Pool, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "guest.kubeconfig"
    data = f"--data {pool.up.data}"
    kubeconfig.write_text(pool.up.type(f"vcsync tenant kubeconfig acme --user guest {data}"))
    pool.acme.kubectl("create", "rolebinding", "guest", "--clusterrole=admin", "--user=guest")
    guest = User(kubeconfig)
    eventually(lambda: guest.run("exec", POD, "--", "true").returncode == 0)
    with (
        guest.running("exec", POD, "--", "sh", "-c", "echo begun; exec sleep 300") as executing,
        guest.running("logs", "-f", POD) as following,
    ):
        for each in (executing, following):
            assert each.stdout is not None
            assert each.stdout.readline()
        pool.up.type(f"vcsync tenant revoke acme --user guest {data}")
        assert executing.wait(limit(DEADLINE)) != 0
        following.wait(limit(DEADLINE))


def test_suspension_ends_terminals_and_keeps_watches(pool: Pool) -> None:
    data = f"--data {pool.up.data}"
    with (
        pool.umbrella.running("exec", POD, "--", "sh", "-c", "echo begun; exec sleep 300") as executing,
        pool.umbrella.running("get", "namespaces", "--watch", "--output=name") as watching,
    ):
        for each in (executing, watching):
            assert each.stdout is not None
            assert each.stdout.readline()
        pool.up.type(f"vcsync tenant suspend umbrella {data}")
        executing.wait(limit(DEADLINE))
        assert watching.poll() is None
        watching.kill()
    assert "suspended" in pool.umbrella.refused("create", "configmap", "late")
    pool.up.type(f"vcsync tenant resume umbrella {data}")


@contextmanager
def kubelet_away(r1: Cluster) -> Iterator[None]:
    """Let the Node of r1 lead to a port that nobody serves."""
    patch = ("patch", "node", "node-0", "--subresource=status", "--type=merge", "-p")
    way = '{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":%s}}}}'
    port = r1.kubectl(
        "get", "node", "node-0", "-o", "jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}"
    )
    r1.kubectl(*patch, way % 1)
    try:
        yield
    finally:
        r1.kubectl(*patch, way % port)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "command", [("logs", POD), ("exec", POD, "--", "true"), ("attach", POD), ("cp", f"{POD}:x", "/dev/null")]
)
def test_a_node_that_is_away_is_not_described(
    pool: Pool, command: tuple[str, ...], protocol: dict[str, str]
) -> None:
    with kubelet_away(pool.r1):
        done = pool.acme.run(*command, **protocol)
    assert done.returncode != 0
    words = ("localhost", "127.0.0.1", "10250", "node-0", "vcsync-", "containerLogs")
    assert not [each for each in words if each in done.stderr], done.stderr


def test_a_super_cluster_that_is_away_is_named_by_its_id_only(pool: Pool) -> None:
    """This test is the last one of the module."""
    process = pool.r1.processes["kube-apiserver"]
    process.send(signal.SIGSTOP)
    try:
        begun = time.monotonic()
        said = pool.acme.refused("logs", POD)
        assert time.monotonic() - begun < limit(6)
        for text in (
            said,
            pool.outside.refused("logs", POD),
            pool.outside.refused("exec", POD, "--", "true"),
        ):
            assert "super cluster r1 cannot be reached at present; try again later" in text
            assert not [each for each in ("127.0.0.1", pool.r1.url, "node-0", "vcsync-") if each in text], (
                text
            )
    finally:
        process.send(signal.SIGCONT)
