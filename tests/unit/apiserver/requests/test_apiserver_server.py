"""Behaviour that is visible only over HTTP."""

import asyncio
import gc
import gzip
import io
from contextlib import suppress

import aiohttp
import msgspec
import pytest

from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.handlers.verbs import HANDLERS
from vcsync.process import http_connection

BASE = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def client(plane, api):
    async with aiohttp.ClientSession(
        f"http://127.0.0.1:{plane.server.port}", auto_decompress=False
    ) as session:
        yield session


async def test_long_lists_are_compressed_if_the_client_accepts_it(client):
    for number in range(3):
        body = {"metadata": {"name": f"big{number}"}, "data": {"k": "v" * 60_000}}
        async with client.post(BASE, json=body) as response:
            assert response.status == 201
    async with client.get(BASE, headers={"Accept-Encoding": "gzip"}) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        packed = await response.read()
    async with client.get(BASE, headers={"Accept-Encoding": "identity"}) as response:
        assert "Content-Encoding" not in response.headers
        assert gzip.decompress(packed) == await response.read()


async def test_a_body_that_is_too_large_is_refused(client):
    async with client.post(
        BASE, data=io.BytesIO(b"x" * (3 * 2**20 + 1)), headers={"Content-Type": "application/json"}
    ) as response:
        assert response.status == 413
        assert msgspec.json.decode(await response.read())["reason"] == "RequestEntityTooLarge"


async def test_a_request_leaves_no_reference_cycles(client, config_map):
    gc.collect()
    gc.disable()
    try:
        async with client.post(BASE, json=config_map("a")) as response:
            assert response.status == 201
        for path in (f"{BASE}/a", f"{BASE}/b", BASE):
            async with client.get(path) as response:
                await response.read()
        async with asyncio.timeout(60):
            while any(isinstance(each, Incoming) for each in gc.get_objects()):
                await asyncio.sleep(0)
    finally:
        gc.enable()


async def test_events_are_streamed_immediately(client, config_map):
    async with client.get(f"{BASE}?watch=1&timeoutSeconds=30") as response:
        assert response.headers["Content-Type"] == "application/json"
        assert response.headers["Transfer-Encoding"] == "chunked"
        async with client.post(BASE, json=config_map("a")):
            pass
        line = await response.content.readline()
    assert msgspec.json.decode(line)["type"] == "ADDED"


async def test_warnings_are_headers(client):
    async with client.post(BASE, json={"metadata": {"name": "a"}, "extra": 1}) as response:
        assert response.headers["Warning"] == '299 - "unknown field \\"extra\\""'


async def test_a_defect_is_an_error_with_an_id_only(client, monkeypatch):
    def broken(*_):
        raise RuntimeError("the secret of tenant b")

    monkeypatch.setitem(HANDLERS, "list", broken)
    async with client.get(BASE) as response:
        body = msgspec.json.decode(await response.read())
    assert (response.status, body["reason"]) == (500, "InternalError")
    assert "secret" not in str(body)


async def test_protobuf_yaml_tables_and_metadata_are_returned_on_request(client, config_map):
    async with client.post(BASE, json=config_map("a")):
        pass
    kinds = {
        "application/vnd.kubernetes.protobuf": b"k8s\x00",
        "application/yaml": b"apiVersion: v1\n",
        "application/json;as=Table;g=meta.k8s.io;v=v1": b'{"kind":"Table"',
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1": b'{"kind":"PartialObjectMetadata"',
    }
    for accept, beginning in kinds.items():
        async with client.get(f"{BASE}/a", headers={"Accept": accept}) as response:
            assert response.status == 200
            assert (await response.read()).startswith(beginning)
    async with client.get(f"{BASE}/a", headers={"Accept": "text/html"}) as response:
        assert response.status == 406


async def test_health_version_and_metrics_are_served(client):
    for path in ("/healthz", "/livez", "/readyz", "/healthz/ping"):
        async with client.get(path) as response:
            assert (response.status, await response.text()) == (200, "ok")
    async with client.get("/readyz?verbose") as response:
        assert (await response.text()).endswith("readyz check passed\n")
    async with client.get("/version") as response:
        assert (await response.json(content_type=None))["minor"] == "36"
    async with client.get("/metrics") as response:
        assert "apiserver_request_total" in await response.text()


async def test_a_disconnected_client_leaves_no_watch(client, plane, config_map):
    async with client.get(f"{BASE}?watch=1") as response:
        async with client.post(BASE, json=config_map("a")):
            pass
        await response.content.readline()
        assert plane._cacher._watchers
        response.close()
    for number in range(200):
        async with client.post(BASE, json=config_map(f"b{number}")):
            pass
        if not plane._cacher._watchers:
            break
    assert not plane._cacher._watchers


async def test_compressed_bodies_are_not_decompressed(client):
    for encoding in ("gzip", "br", "deflate"):
        packed = gzip.compress(b'{"metadata":{"name":"a"}}')
        headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
        answer = await client.post("/api/v1/namespaces/default/configmaps", data=packed, headers=headers)
        assert answer.status == 400
        assert (await answer.json())["kind"] == "Status"


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"GET * HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nNoColon\r\n\r\n", b"400 Bad Request"),
        (b"\x00\x01\r\n\r\n", b"400 Bad Request"),
        (b"g" * 300_000, b"400 Bad Request"),
        (b"GET /?" + b"a" * 300_000, b"431 Request Header Fields Too Large"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 300_000, b"431 Request Header Fields Too Large"),
        (
            b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: a\r\n" % number for number in range(8000)),
            b"431 Request Header Fields Too Large",
        ),
    ],
)
async def test_malformed_requests_are_refused_once_and_not_logged(plane, caplog, monkeypatch, data, answer):
    monkeypatch.setattr(http_connection, "LINGER_SECONDS", 0.0)
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.server.port)
    writer.write(data)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %b\r\n" % answer)
    assert b"\r\nConnection: close\r\n" in head
    with suppress(ConnectionError):
        assert await reader.read() == answer
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    assert caplog.text == ""


async def test_a_long_command_of_an_exec_is_read_whole(client):
    """kube-apiserver takes a mebibyte. The answer is that of the missing Pod, not a refusal of the request's length."""
    path = "/api/v1/namespaces/default/pods/missing/exec"
    async with client.post(f"{path}?container=c&command=echo&command={'a' * 100_000}") as answer:
        assert answer.status == 404
        assert (await answer.json())["message"] == 'pods "missing" not found'
    async with client.post(f"{path}/other?command={'a' * 100_000}") as answer:
        assert answer.status == 414


async def test_a_malformed_request_ends_a_connection_after_valid_ones(plane):
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.server.port)
    for _ in range(2):
        writer.write(b"HEAD /version HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    writer.write(b"no request\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_a_body_in_chunks_is_read_whole(client, size):
    text = "".join(str(number) for number in range(1000))
    data = msgspec.json.encode({"metadata": {"name": f"chunks-{size}"}, "data": {"a": text}})

    async def pieces():
        for at in range(0, len(data), size):
            yield data[at : at + size]

    async with client.post(BASE, data=pieces(), headers={"Content-Type": "application/json"}) as response:
        assert (response.status, msgspec.json.decode(await response.read())["data"]) == (201, {"a": text})


async def test_a_body_in_malformed_chunks_is_refused(plane):
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.server.port)
    head = (
        b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    writer.write(head % BASE.encode() + b"1\r\n{\r\nno size\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@pytest.mark.parametrize("groups", [150, 999])
async def test_a_user_of_many_groups_is_impersonated(client, groups):
    """Users of directories have hundreds of groups. Proxies name each in a header line of its own."""
    headers = [("Impersonate-User", "alice"), *[("Impersonate-Group", f"group-{n}") for n in range(groups)]]
    async with client.get(f"{BASE}/missing", headers=headers) as response:
        assert response.status == 404, await response.text()
