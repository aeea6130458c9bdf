"""The operator's API for tenants, kubeconfigs, the data folder, TLS."""

import asyncio
import base64
import ssl
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from asked_plane import holding

from tests.unit.controlplane.identity.conftest import NOW, Clock
from vcsync.controlplane.behaviour import User
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.identity.caller import Caller
from vcsync.controlplane.identity.service import Identity
from vcsync.controlplane.store.sqlite import open_sqlite
from vcsync.controlplane.tenants import pki
from vcsync.controlplane.tenants.folder import DataFolder, is_wildcard, pod_address, serving_names
from vcsync.controlplane.tenants.lifecycle import Endpoint

OPERATOR = Caller(User("admin", groups=("system:masters", "system:authenticated")), "system", system=True)
CLERK = Caller(User("clerk", groups=("system:authenticated",)), "system", system=True)
TENANT = Caller(User("admin", groups=("vcsync:tenant-admins", "system:masters")), "acme")
NOBODY = Caller(User("system:anonymous"), "")
BASE = "/vcsync/v1/tenants"


@pytest.fixture
async def identity(tmp_path: Path) -> Any:
    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield await Identity.open(store, Endpoint("https://cp.example:6443", "192.0.2.1", 6443), clock=Clock())
    await store.close()


async def ask(identity: Identity, method: str, path: str, body: bytes = b"", **query: list[str]) -> Any:
    answer = await identity.admin.handle(OPERATOR, method, path, query, holding(body))
    return msgspec.json.decode(answer.body) if answer.content_type == "application/json" else answer.body


async def test_the_life_of_a_tenant(identity: Identity) -> None:
    made = await ask(identity, "POST", BASE, b'{"name":"acme"}')
    assert (made["name"], made["phase"]) == ("acme", "Ready")
    listed = await ask(identity, "GET", BASE)
    assert [each["name"] for each in listed["items"]] == ["acme", "system"]
    assert not {"authority", "signer"} & listed["items"][0].keys()
    await ask(identity, "POST", f"{BASE}/acme/rotate")
    files = (await ask(identity, "GET", f"{BASE}/acme/export"))["files"]
    assert sorted(files) == ["ca.crt", "ca.key", "sa.key", "sa.pub", "server-ca.crt"]
    await ask(identity, "DELETE", f"{BASE}/acme")
    assert [each["name"] for each in (await ask(identity, "GET", BASE))["items"]] == ["system"]


@pytest.mark.parametrize("caller", [TENANT, NOBODY])
@pytest.mark.parametrize(
    "path", [BASE, f"{BASE}/acme/export", f"{BASE}/umbrella/kubeconfig", "/vcsync/v1/no-such"]
)
async def test_nobody_but_system_callers_gets_an_answer(
    identity: Identity, caller: Caller, path: str
) -> None:
    with pytest.raises(StatusError) as caught:
        await identity.admin.handle(caller, "GET", path, {}, holding(b""))
    assert (caught.value.code, caught.value.message) == (403, "forbidden: the credential is not valid here")


async def test_whose_controllers_a_tenant_has(identity: Identity) -> None:
    await ask(identity, "POST", BASE, b'{"name":"acme"}')
    assert (await ask(identity, "GET", f"{BASE}/acme"))["controllers"] == "vcsync"
    changed = await ask(identity, "PATCH", f"{BASE}/acme", b'{"controllers":"external"}')
    assert (changed["name"], changed["controllers"]) == ("acme", "external")
    made = await ask(identity, "POST", BASE, b'{"name":"umbrella","controllers":"external"}')
    assert made["controllers"] == "external"
    listed = (await ask(identity, "GET", BASE))["items"]
    assert {each["name"]: each["controllers"] for each in listed} == {
        "acme": "external",
        "system": "vcsync",
        "umbrella": "external",
    }


async def test_how_much_a_tenant_may_keep(identity: Identity) -> None:
    made = await ask(identity, "POST", BASE, b'{"name":"acme"}')
    assert (made["storageBytes"], made["storageObjects"]) == (None, None)
    changed = await ask(identity, "PATCH", f"{BASE}/acme", b'{"storageBytes":5,"controllers":"external"}')
    assert (changed["storageBytes"], changed["storageObjects"], changed["controllers"]) == (
        5,
        None,
        "external",
    )
    changed = await ask(identity, "PATCH", f"{BASE}/acme", b'{"storageObjects":0}')
    assert (changed["storageBytes"], changed["storageObjects"]) == (5, 0)
    await ask(identity, "POST", f"{BASE}/acme/rotate")
    changed = await ask(identity, "PATCH", f"{BASE}/acme", b'{"storageBytes":null}')
    assert (changed["storageBytes"], changed["storageObjects"]) == (None, 0)
    assert await ask(identity, "PATCH", f"{BASE}/acme", b"{}") == changed


async def test_system_callers_need_the_right_to_it(identity: Identity) -> None:
    with pytest.raises(StatusError) as caught:
        await identity.admin.handle(CLERK, "GET", f"{BASE}/acme/export", {}, holding(b""))
    assert caught.value.message == 'forbidden: User "clerk" cannot get path "/vcsync/v1/tenants/acme/export"'


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("PUT", BASE, b"", 405),
        ("GET", f"{BASE}/acme/rotate", b"", 405),
        ("PUT", f"{BASE}/acme", b"", 405),
        ("GET", f"{BASE}/acme", b"", 404),
        ("PATCH", f"{BASE}/acme", b'{"controllers":"external"}', 404),
        ("PATCH", f"{BASE}/acme", b'{"controllers":"nobody"}', 400),
        ("PATCH", f"{BASE}/acme", b'{"phase":"Ready"}', 400),
        ("PATCH", f"{BASE}/acme", b'{"storageBytes":-1}', 400),
        ("PATCH", f"{BASE}/acme", b'{"storageBytes":1}', 404),
        ("POST", BASE, b'{"name":"x","controllers":"nobody"}', 400),
        ("GET", f"{BASE}/acme/secrets", b"", 404),
        ("GET", f"{BASE}/", b"", 404),
        ("GET", "/vcsync/v1/others", b"", 404),
        ("POST", BASE, b"no json", 400),
        ("POST", BASE, b'{"name":5}', 400),
        ("POST", BASE, b'{"name":"x","more":1}', 400),
        ("POST", BASE, b'{"name":"../x"}', 422),
        ("DELETE", f"{BASE}/no-such", b"", 404),
        ("GET", f"{BASE}/no-such/kubeconfig", b"", 404),
        ("GET", f"{BASE}/no-such/export", b"", 404),
        ("POST", f"{BASE}/no-such/rotate", b"", 404),
    ],
)
async def test_what_makes_no_sense_is_refused(
    identity: Identity, method: str, path: str, body: bytes, code: int
) -> None:
    with pytest.raises(StatusError) as caught:
        await ask(identity, method, path, body)
    assert caught.value.code == code


@pytest.mark.parametrize(("user", "groups"), [("x" * 65, []), ("", []), ("x", [""]), ("x", ["g" * 65])])
async def test_users_that_no_certificate_can_name(identity: Identity, user: str, groups: list[str]) -> None:
    await identity.lifecycle.create("acme")
    with pytest.raises(StatusError) as caught:
        await ask(identity, "GET", f"{BASE}/acme/kubeconfig", user=[user], group=groups)
    assert caught.value.code == 400


async def test_the_kubeconfig_of_a_component(identity: Identity) -> None:
    await identity.lifecycle.create("acme")
    text = await ask(identity, "GET", f"{BASE}/acme/kubeconfig", user=["system:kube-controller-manager"])
    document = yaml.safe_load(text)
    assert document["contexts"] == [
        {"name": "acme", "context": {"cluster": "acme", "user": "system:kube-controller-manager@acme"}}
    ]
    authority = base64.b64decode(document["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    assert authority == identity.server.certificate


# ---- data folder -------------------------------------------------------------------------


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "deep" / "data")
    folder.serve_with(pki.new_authority("server", NOW), ["localhost"], NOW)
    folder.write(folder.admin_kubeconfig, "secret")
    folder.write(folder.admin_kubeconfig, b"other")
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    files = list(folder.path.iterdir())
    assert {path.name for path in files} == {"ca.crt", "server.crt", "server.key", "admin.kubeconfig"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert folder.admin_kubeconfig.read_text() == "other"


DAY = 24 * 3600


@pytest.mark.parametrize(
    ("names", "later", "other_authority", "renewed"),
    [
        (["localhost"], 0, False, False),
        (["localhost"], 240 * DAY, False, False),
        (["localhost"], 250 * DAY, False, True),
        (["localhost"], 400 * DAY, False, True),
        (["localhost", "cp.example"], 0, False, True),
        (["localhost"], 0, True, True),
    ],
)
def test_the_serving_certificate_is_renewed_in_time(
    tmp_path: Path, names: list[str], later: int, other_authority: bool, renewed: bool
) -> None:
    authority = pki.new_authority("server", NOW)
    folder = DataFolder(tmp_path / "data")
    assert folder.serve_with(authority, ["localhost"], NOW)
    if other_authority:
        authority = pki.new_authority("server", NOW)
    assert folder.serve_with(authority, names, NOW + later) is renewed


def test_a_damaged_certificate_is_made_anew(tmp_path: Path) -> None:
    authority = pki.new_authority("server", NOW)
    folder = DataFolder(tmp_path / "data")
    folder.serve_with(authority, ["localhost"], NOW)
    folder.key.write_text("nonsense")
    assert folder.serve_with(authority, ["localhost"], NOW)


@pytest.mark.parametrize(
    ("host", "wild"), [("0.0.0.0", True), ("::", True), ("127.0.0.1", False), ("cp.example", False)]
)
def test_hosts_that_mean_all_addresses(host: str, wild: bool) -> None:
    assert is_wildcard(host) is wild
    assert (host in serving_names(host)) is not wild


def test_pods_are_told_an_address_that_is_not_loopback_only_to_them() -> None:
    assert pod_address("192.0.2.7") == "192.0.2.7"
    assert pod_address("127.0.0.1") == pod_address("0.0.0.0")


# ---- TLS ---------------------------------------------------------------------------------


async def handshake(
    server: ssl.SSLContext, authority: str, pair: pki.Pair | None, folder: Path
) -> bytes | None:
    """Return what a server sees of a client's certificate."""
    client = ssl.create_default_context(cadata=authority)
    client.set_alpn_protocols(["h2", "http/1.1"])
    if pair:
        (folder / "client.pem").write_text(pair.certificate + pair.key)
        client.load_cert_chain(folder / "client.pem")
    seen: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    async def on_client(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tls = writer.get_extra_info("ssl_object")
        assert tls.selected_alpn_protocol() == "http/1.1"
        assert tls.version() in ("TLSv1.2", "TLSv1.3")
        seen.set_result(tls.getpeercert(binary_form=True))
        writer.write(b"x")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(on_client, "127.0.0.1", 0, ssl=server)
    port = listening.sockets[0].getsockname()[1]
    try:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=client, server_hostname="localhost"
        )
        assert await reader.read(1) == b"x"
        writer.close()
        return await seen
    finally:
        listening.close()


async def test_the_server_asks_for_certificates_of_tenants_that_come_later_too(
    identity: Identity, tmp_path: Path
) -> None:
    # TLS looks at the real time, which the clock of these tests is not.
    folder = DataFolder(tmp_path / "data")
    now = time.time()
    authority = pki.new_authority("server", now)
    folder.serve_with(authority, ["localhost"], now)
    context = await identity.tenants.ssl_context(folder.certificate, folder.key, folder.authorities)
    assert context.num_tickets == 0
    assert folder.certificate.read_text().endswith(authority.certificate)
    identity.lifecycle._means = replace(identity.lifecycle._means, clock=lambda: now)
    record = await identity.lifecycle.create("late")
    assert record.authority is not None
    pair = pki.issue_client(record.authority, "alice", (), now)
    shown = await handshake(context, authority.certificate, pair, tmp_path)
    assert shown == ssl.PEM_cert_to_DER_cert(pair.certificate)
    assert await handshake(context, authority.certificate, None, tmp_path) is None


def test_a_folder_whose_store_is_gone_is_no_new_one(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    assert not folder.has_lost_its_store()
    folder.store.write_bytes(b"")
    assert not folder.has_lost_its_store()
    folder.write(folder.admin_kubeconfig, "kubeconfig")
    assert folder.has_lost_its_store()
    folder.store.with_name("store.db-wal").write_bytes(b"what was written last")
    assert not folder.has_lost_its_store()
    folder.store.unlink()
    folder.store.with_name("store.db-wal").unlink()
    assert folder.has_lost_its_store()
    folder.store.write_bytes(b"SQLite")
    assert not folder.has_lost_its_store()
