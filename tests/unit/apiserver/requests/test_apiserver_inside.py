"""Clients in the server's own process get the same responses as over HTTP."""

import asyncio
import gc
import ssl
import time
from contextlib import aclosing

import pytest
from msgspec.structs import replace

from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.tenants import pki
from vcsync.kube import local
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection, Credentials
from vcsync.kube.errors import AlreadyExists, NotFound, Timeout, Unreachable
from vcsync.kube.resources import CONFIG_MAPS

URL = "http://inside.test:1"


def connection(
    url: str = URL, tls: ssl.SSLContext | None = None, server_name: str | None = None
) -> Connection:
    async def load(_files) -> Credentials:
        return Credentials(url, tls, server_name)

    return Connection(load, base=None)


@pytest.fixture
async def client(plane, api):
    with local.serving(URL, plane.server.in_process(None)):
        async with Client(connection(), name="inside") as made:
            yield made


async def test_calls_need_no_connection(client, config_map):
    made = await client.create(CONFIG_MAPS, config_map("a"), "default")
    assert (await client.get(CONFIG_MAPS, "a", "default")).uid == made.uid
    assert [each.name for each in await client.list(CONFIG_MAPS, "default")] == ["a"]
    assert await client.delete(CONFIG_MAPS, "a", "default") is None
    assert client.statistics().requests == {("POST", "2xx"): 1, ("GET", "2xx"): 2, ("DELETE", "2xx"): 1}


async def test_refusals_are_the_errors_of_the_http_client(client, config_map):
    await client.create(CONFIG_MAPS, config_map("a"), "default")
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("a"), "default")
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "b", "default")


async def test_calls_leave_no_reference_cycles(client, config_map):
    gc.collect()
    gc.disable()
    try:
        await client.create(CONFIG_MAPS, config_map("a"), "default")
        await client.get(CONFIG_MAPS, "a", "default")
        assert not [each for each in gc.get_objects() if isinstance(each, Incoming)]
    finally:
        gc.enable()


async def test_a_watch_delivers_events_and_ends_with_its_reader(client, plane, config_map):
    version = (await anext(client.pages(CONFIG_MAPS, "default"))).resource_version
    events = client.watch(CONFIG_MAPS, "default", resource_version=version)
    async with asyncio.timeout(60), aclosing(events):
        await client.create(CONFIG_MAPS, config_map("a"), "default")
        first = await anext(events)
        assert (first.type, first.object.name) == ("ADDED", "a")
        assert client.statistics().watches == 1
    assert client.statistics().watches == 0
    async with asyncio.timeout(60):
        while plane._cacher._watchers:
            await asyncio.sleep(0)


async def test_a_watch_that_is_refused_is_an_error(client):
    with pytest.raises(NotFound):
        await anext(client.watch(replace(CONFIG_MAPS, plural="nothings"), resource_version=""))


async def test_a_defect_ends_one_request(client, plane, monkeypatch):
    async def broken(*_):
        raise RuntimeError("the secret of tenant b")

    monkeypatch.setattr(plane.server.chain, "handle", broken)
    with pytest.raises(Exception, match="unexpected error, id") as error:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")
    assert "secret" not in str(error.value)


async def test_a_call_ends_at_its_timeout(client, plane, monkeypatch):
    async def never(*_):
        await asyncio.Event().wait()

    monkeypatch.setattr(plane.server.chain, "handle", never)
    with pytest.raises(Timeout):
        await client.request("GET", "/version", timeout=0.01)


async def test_a_stopped_server_is_not_found(plane, api):
    async with Client(connection("http://127.0.0.1:1"), name="gone") as client:
        with local.serving("http://127.0.0.1:1", plane.server.in_process(None)):
            await client.version()
        with pytest.raises(Unreachable):
            await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")


# ---- Who we are --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authorities():
    return [pki.new_authority(f"0123456789ab-{name}", time.time()) for name in ("acme", "other")]


def files(folder, name, pair):
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    for path, text in zip(paths, (pair.certificate, pair.key), strict=True):
        path.write_text(text)
    return paths


@pytest.fixture
def sides(authorities, tmp_path):
    """TLS contexts of a server, and of a client that the first authority has signed."""
    first, _ = authorities
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*files(tmp_path, "serving", pki.issue_serving(first, ["localhost"], time.time())))
    server.verify_mode = ssl.CERT_OPTIONAL
    server.load_verify_locations(cadata=first.certificate)
    client = ssl.create_default_context(cadata=first.certificate)
    return server, client


def test_a_client_certificate_needs_its_key_and_a_trusted_authority(authorities, sides, tmp_path):
    server, client = sides
    assert local.handshake(client, server, "localhost") is None
    client.load_cert_chain(*files(tmp_path, "mine", pki.issue_client(authorities[0], "u", [], time.time())))
    shown = local.handshake(client, server, "localhost")
    assert shown == ssl.PEM_cert_to_DER_cert((tmp_path / "mine.crt").read_text())
    client.load_cert_chain(*files(tmp_path, "other", pki.issue_client(authorities[1], "u", [], time.time())))
    with pytest.raises(ssl.SSLError):
        local.handshake(client, server, "localhost")


async def test_an_untrusted_server_gets_no_request(plane, api, authorities, sides):
    server, _ = sides
    stranger = ssl.create_default_context(cadata=authorities[1].certificate)
    with local.serving("https://localhost:1", plane.server.in_process(server)):
        async with Client(connection("https://localhost:1", stranger), name="inside") as client:
            with pytest.raises(Unreachable, match="TLS:"):
                await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")
        async with Client(connection("https://localhost:1", sides[1], "elsewhere"), name="inside") as client:
            with pytest.raises(Unreachable, match="TLS:"):
                await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")
        async with Client(connection("https://localhost:1", sides[1]), name="inside") as client:
            await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")
