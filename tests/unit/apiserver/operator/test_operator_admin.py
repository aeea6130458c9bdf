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

from tests.unit.apiserver.identity.conftest import NOW, Clock
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.assembly.identity import Identity
from vcsync.apiserver.operator.folder import DataFolder, is_wildcard, pod_address, serving_names
from vcsync.apiserver.operator.lifecycle import Endpoint
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.host_names import HostNames
from vcsync.apiserver.storage.sqlite import open_sqlite
from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.request_limits import TenantLimits

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


UPSTREAM = {"server": "https://192.0.2.7:6443", "token": "secret-token"}


async def test_the_api_server_of_an_external_tenant(identity: Identity) -> None:
    made = await ask(identity, "POST", BASE, msgspec.json.encode({"name": "umbrella", "upstream": UPSTREAM}))
    assert (made["server"], made["controllers"]) == ("https://192.0.2.7:6443", "external")
    assert "secret-token" not in str(await ask(identity, "GET", f"{BASE}/umbrella"))
    assert identity.tenants.is_external("umbrella")
    assert "umbrella" not in identity.tenants.embedded_names()
    moved = msgspec.json.encode(
        {"upstream": {**UPSTREAM, "server": "https://192.0.2.8:6443", "serverName": "api"}}
    )
    assert (await ask(identity, "PATCH", f"{BASE}/umbrella", moved))["server"] == "https://192.0.2.8:6443"
    await ask(identity, "POST", f"{BASE}/umbrella/rotate")
    found = await identity.tenants.credentials("umbrella")
    assert found is not None
    assert found.record.upstream is not None
    assert (found.record.upstream.server_name, found.record.upstream.token) == ("api", "secret-token")
    assert "secret-token" not in repr(found.record)
    await ask(identity, "DELETE", f"{BASE}/umbrella")
    assert not identity.tenants.is_external("umbrella")


async def test_an_external_tenant_is_readable_as_long_as_its_record_says_so(identity: Identity) -> None:
    async def change(method: str, path: str, **upstream: Any) -> None:
        body: dict[str, Any] = {"upstream": {**UPSTREAM, **upstream}}
        body |= {"name": "umbrella"} if method == "POST" else {}
        shown = await ask(identity, method, path, msgspec.json.encode(body))
        assert shown["readable"] == list(upstream.get("readable", []))

    await change("POST", BASE)
    assert (identity.tenants.external_names(), identity.tenants.readable()) == (["umbrella"], [])
    seen = [identity.tenants.external_changes]
    await change("PATCH", f"{BASE}/umbrella", readable=["pods"])
    (first,) = identity.tenants.readable()
    assert (first.tenant, first.resources) == ("umbrella", ("pods",))
    await change("PATCH", f"{BASE}/umbrella", readable=["pods"], token="another")
    assert identity.tenants.readable() == [first]
    await change("PATCH", f"{BASE}/umbrella", readable=["pods"], server="https://192.0.2.9:6443")
    (moved,) = identity.tenants.readable()
    assert moved.id != first.id  # its versions say nothing about those of the other server
    seen.append(identity.tenants.external_changes)
    await ask(identity, "DELETE", f"{BASE}/umbrella")
    assert identity.tenants.readable() == []
    seen.append(identity.tenants.external_changes)
    assert seen == sorted(set(seen))


async def test_a_tenant_does_not_change_from_embedded_to_external_or_back(identity: Identity) -> None:
    await ask(identity, "POST", BASE, b'{"name":"acme"}')
    await ask(identity, "POST", BASE, msgspec.json.encode({"name": "umbrella", "upstream": UPSTREAM}))
    for name, change, message in (
        ("acme", {"upstream": UPSTREAM}, "its control plane is embedded"),
        ("umbrella", {"controllers": "vcsync"}, "its control plane is external"),
    ):
        with pytest.raises(StatusError, match=message) as caught:
            await ask(identity, "PATCH", f"{BASE}/{name}", msgspec.json.encode(change))
        assert caught.value.code == 409


@pytest.mark.parametrize(
    "upstream",
    [
        {"server": "http://192.0.2.7:6443", "token": "t"},
        {"server": "https://", "token": "t"},
        {"server": "https://user@192.0.2.7", "token": "t"},
        {"server": "https://192.0.2.7/?x=y", "token": "t"},
        {"server": "https://192.0.2.7", "token": ""},
        {"server": "https://192.0.2.7", "token": "a b"},
        {"server": "https://192.0.2.7", "token": "a\r\nX-Remote-User: admin"},
        {"server": "https://192.0.2.7", "token": "t", "authority": "no certificate"},
        {"server": "https://192.0.2.7"},
        {"server": "https://192.0.2.7", "token": "t", "readable": ["pods/log"]},
    ],
)
async def test_an_api_server_that_cannot_be_called_is_refused(
    identity: Identity, upstream: dict[str, Any]
) -> None:
    with pytest.raises(StatusError) as caught:
        await ask(identity, "POST", BASE, msgspec.json.encode({"name": "umbrella", "upstream": upstream}))
    assert caught.value.code == 400
    assert not identity.tenants.exists("umbrella")


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


async def test_how_much_a_tenant_may_request(identity: Identity) -> None:
    made = await ask(identity, "POST", BASE, b'{"name":"acme"}')
    assert (made["limits"], made["limitsInForce"]) == (None, None)
    body = b'{"limits":{"readsPerSecond":5,"watches":0,"user":{"watches":2}}}'
    changed = await ask(identity, "PATCH", f"{BASE}/acme", body)
    assert changed["limits"] == {"readsPerSecond": 5, "watches": 0, "user": {"watches": 2}}
    assert changed["limitsInForce"] == {"readsPerSecond": 5, "readBurst": 10, "user": {"watches": 2}}
    await ask(identity, "POST", f"{BASE}/acme/rotate")
    assert identity.tenants.limits("acme") is not None
    changed = await ask(identity, "PATCH", f"{BASE}/acme", b'{"weight":3}')
    assert (changed["weight"], changed["limits"]["readsPerSecond"], identity.tenants.weight("acme")) == (
        3,
        5,
        3,
    )
    changed = await ask(identity, "PATCH", f"{BASE}/acme", b'{"limits":null}')
    assert (changed["limits"], identity.tenants.limits("acme")) == (None, None)


async def test_the_defaults_of_limits_are_for_tenants_only(identity: Identity) -> None:
    identity.admin._default_limits = TenantLimits(watches=7)
    await ask(identity, "POST", BASE, b'{"name":"acme"}')
    await ask(identity, "POST", BASE, b'{"name":"r1","nodes":"own"}')
    shown = {each["name"]: each["limitsInForce"] for each in (await ask(identity, "GET", BASE))["items"]}
    assert shown == {"acme": {"watches": 7}, "r1": None, "system": None}


async def test_a_program_with_the_right_to_tenants_gets_nothing_of_the_operators_own_space(
    identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def allowed(*_: object) -> None: ...

    monkeypatch.setattr(identity.authorizer, "authorize", allowed)
    for method, rest in (("GET", "/kubeconfig"), ("GET", "/export"), ("POST", "/tokens"), ("DELETE", "")):
        with pytest.raises(StatusError) as caught:
            await identity.admin.handle(CLERK, method, f"{BASE}/system{rest}", {}, holding(b""))
        assert (caught.value.code, "only system:masters" in caught.value.message) == (403, True)


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
        ("PATCH", f"{BASE}/acme", b'{"limits":{"watches":-1}}', 400),
        ("PATCH", f"{BASE}/acme", b'{"limits":{"watches":1}}', 404),
        ("PATCH", f"{BASE}/acme", b'{"weight":0}', 400),
        ("PATCH", f"{BASE}/system", b'{"limits":{"watches":1}}', 403),
        ("PATCH", f"{BASE}/acme", b'{"storageBytes":1}', 404),
        ("POST", BASE, b'{"name":"x","controllers":"nobody"}', 400),
        ("GET", f"{BASE}/acme/secrets", b"", 404),
        ("GET", f"{BASE}/", b"", 404),
        ("GET", "/vcsync/v1/others", b"", 404),
        ("POST", BASE, b'{"name":"x","network":{"type":"flat"}}', 400),
        ("POST", BASE, b'{"name":"x","network":{"type":"VPC"}}', 400),
        ("POST", BASE, b'{"name":"x","network":{"vpcID":"v"}}', 400),
        ("POST", BASE, b'{"name":"x","nodes":"own","network":{}}', 400),
        ("POST", BASE, b'{"name":"x","controllers":"external","network":{}}', 400),
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
        {
            "name": "acme",
            "context": {
                "cluster": "acme",
                "user": "system:kube-controller-manager@acme",
                "extensions": [{"name": "vcsync", "extension": {"tenant": "acme"}}],
            },
        }
    ]
    authority = base64.b64decode(document["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    assert authority == identity.server.certificate


@pytest.mark.parametrize(
    ("tenant", "host", "names", "url"),
    [
        ("acme", [], HostNames("tenants.example.com"), "https://cp.example:6443"),
        ("acme", ["name"], None, "https://cp.example:6443"),
        ("acme", ["name"], HostNames("tenants.example.com"), "https://acme.tenants.example.com:443"),
        ("system", ["name"], HostNames("tenants.example.com"), "https://cp.example:6443"),
    ],
)
@pytest.mark.parametrize("credential", [[], ["none"]])
async def test_kubeconfigs_have_the_host_name_of_the_tenant_if_they_are_asked_for_it(
    identity: Identity, tenant: str, host: list[str], names: HostNames | None, url: str, credential: list[str]
) -> None:
    await identity.lifecycle.create("acme")
    identity.admin._endpoint = Endpoint("https://cp.example:6443", "192.0.2.1", 443, names)
    path = f"{BASE}/{tenant}/kubeconfig"
    document = yaml.safe_load(await ask(identity, "GET", path, host=host, credential=credential))
    assert document["clusters"][0]["cluster"]["server"] == url


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
    identity.lifecycle._context = replace(identity.lifecycle._context, clock=lambda: now)
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


async def test_a_kubeconfig_of_a_tenant_shows_that_a_folder_had_a_store(
    identity: Identity, tmp_path: Path
) -> None:
    folder = DataFolder(tmp_path / "data")
    folder.write(folder.path / "east.kubeconfig", "clusters: [{cluster: {server: https://east}}]")
    assert not folder.has_lost_its_store()
    await identity.lifecycle.create("acme")
    folder.write(folder.path / "acme.kubeconfig", await identity.admin.kubeconfig("acme"))
    assert folder.has_lost_its_store()
    folder.write(folder.path / "acme.kubeconfig", "server: https://127.0.0.1:6443/tenants/acme")
    assert folder.has_lost_its_store()
    folder.store.write_bytes(b"SQLite")
    assert not folder.has_lost_its_store()


@pytest.mark.parametrize(
    ("name", "content", "lost"),
    [
        ("acme.kubeconfig", "server: https://127.0.0.1:6443/tenants/acme", True),
        ("authorities/1f2e.0", "-----BEGIN CERTIFICATE-----", True),
        ("east.kubeconfig", "server: https://east.example:6443", False),
    ],
)
def test_other_traces_tell_of_a_store_too_but_no_file_of_somebody_elses(
    tmp_path: Path, name: str, content: str, lost: bool
) -> None:
    folder = DataFolder(tmp_path / "data")
    file = folder.path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)
    assert folder.has_lost_its_store() is lost
