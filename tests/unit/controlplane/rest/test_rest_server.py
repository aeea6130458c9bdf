"""What only shows over HTTP."""

import asyncio
import gzip
import io

import aiohttp
import msgspec
import pytest

BASE = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def client(plane, api):
    async with aiohttp.ClientSession(
        f"http://127.0.0.1:{plane.server.port}", auto_decompress=False
    ) as session:
        yield session


async def test_long_lists_are_compressed_for_whoever_takes_it(client):
    for number in range(3):
        body = {"metadata": {"name": f"big{number}"}, "data": {"k": "v" * 60_000}}
        async with client.post(BASE, json=body) as told:
            assert told.status == 201
    async with client.get(BASE, headers={"Accept-Encoding": "gzip"}) as told:
        assert told.headers["Content-Encoding"] == "gzip"
        packed = await told.read()
    async with client.get(BASE, headers={"Accept-Encoding": "identity"}) as told:
        assert "Content-Encoding" not in told.headers
        assert gzip.decompress(packed) == await told.read()


async def test_a_body_that_is_too_large_is_refused(client):
    async with client.post(
        BASE, data=io.BytesIO(b"x" * (3 * 2**20 + 1)), headers={"Content-Type": "application/json"}
    ) as told:
        assert told.status == 413
        assert msgspec.json.decode(await told.read())["reason"] == "RequestEntityTooLarge"


async def test_events_are_streamed_as_they_come(client, config_map):
    async with client.get(f"{BASE}?watch=1&timeoutSeconds=30") as told:
        assert told.headers["Content-Type"] == "application/json"
        assert told.headers["Transfer-Encoding"] == "chunked"
        async with client.post(BASE, json=config_map("a")):
            pass
        line = await told.content.readline()
    assert msgspec.json.decode(line)["type"] == "ADDED"


async def test_warnings_are_headers(client):
    async with client.post(BASE, json={"metadata": {"name": "a"}, "extra": 1}) as told:
        assert told.headers["Warning"] == '299 - "unknown field \\"extra\\""'


async def test_a_defect_is_an_error_with_an_id_and_nothing_else(client, plane, monkeypatch):
    def broken(*_):
        raise RuntimeError("the secret of tenant b")

    monkeypatch.setattr(plane.server._way._verbs, "collection", broken)
    async with client.get(BASE) as told:
        body = msgspec.json.decode(await told.read())
    assert (told.status, body["reason"]) == (500, "InternalError")
    assert "secret" not in str(body)


async def test_protobuf_yaml_tables_and_metadata_are_given_to_whoever_asks(client, config_map):
    async with client.post(BASE, json=config_map("a")):
        pass
    kinds = {
        "application/vnd.kubernetes.protobuf": b"k8s\x00",
        "application/yaml": b"apiVersion: v1\n",
        "application/json;as=Table;g=meta.k8s.io;v=v1": b'{"kind":"Table"',
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1": b'{"kind":"PartialObjectMetadata"',
    }
    for accept, beginning in kinds.items():
        async with client.get(f"{BASE}/a", headers={"Accept": accept}) as told:
            assert told.status == 200
            assert (await told.read()).startswith(beginning)
    async with client.get(f"{BASE}/a", headers={"Accept": "text/html"}) as told:
        assert told.status == 406


async def test_health_version_and_metrics_are_told(client):
    for path in ("/healthz", "/livez", "/readyz", "/healthz/ping"):
        async with client.get(path) as told:
            assert (told.status, await told.text()) == (200, "ok")
    async with client.get("/readyz?verbose") as told:
        assert (await told.text()).endswith("readyz check passed\n")
    async with client.get("/version") as told:
        assert (await told.json(content_type=None))["minor"] == "36"
    async with client.get("/metrics") as told:
        assert "apiserver_request_total" in await told.text()


async def test_a_client_that_goes_leaves_no_watch_behind(client, plane, config_map):
    async with client.get(f"{BASE}?watch=1") as told:
        async with client.post(BASE, json=config_map("a")):
            pass
        await told.content.readline()
        assert plane._hub._watchers
        told.close()
    for number in range(200):
        async with client.post(BASE, json=config_map(f"b{number}")):
            pass
        if not plane._hub._watchers:
            break
    assert not plane._hub._watchers


async def test_packed_bodies_are_not_unpacked(client):
    for encoding in ("gzip", "br", "deflate"):
        packed = gzip.compress(b'{"metadata":{"name":"a"}}')
        headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
        answer = await client.post("/api/v1/namespaces/default/configmaps", data=packed, headers=headers)
        assert answer.status == 400
        assert (await answer.json())["kind"] == "Status"


async def test_malformed_requests_leave_nothing_in_the_log(client, plane, caplog):
    for data in (b"GET * HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nNoColon\r\n\r\n", b"\x00\x01\r\n\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", plane.server.port)
        writer.write(data)
        assert b" 400 " in await reader.readline()
        writer.close()
        await writer.wait_closed()
    assert caplog.text == ""
