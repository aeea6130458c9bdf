"""A status endpoint that other machines reach, on real API servers: who may read what, and a tenant sees only itself."""

from __future__ import annotations

import itertools
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hack.system import System
from hack.testbed import TestBed
from hack.testbed.processes import free_ports
from tests.real.up_kit import Up, operator
from tests.real.waiting import eventually
from vcsync.apiserver.tenants.pki import issue_serving, new_authority
from vcsync.status.document import ProcessStatus

# The time limit includes the start of the clusters.
pytestmark = pytest.mark.timeout(400)

ROLE = "nsscheduler"
TIMELINE = "/timeline?tenant=acme&object=pods/default/web"
SECRET = ("/", "/status", TIMELINE, "/metrics")
HEALTH = {
    "/healthz": {(200, "ok\n")},
    "/livez": {(200, "ok\n")},
    # No syncer runs, so that a super cluster becomes suspect meanwhile.
    "/readyz": {(200, "ok\n"), (503, "not ready: /status says why\n")},
}


class Door:
    """A status endpoint of this machine, read over HTTPS."""

    def __init__(self, port: int, authority: Path) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self.authority = authority

    def get(self, path: str, token: str = "") -> tuple[int, str]:
        """Return the status and the text of an answer; 0: there is none."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        asked = urllib.request.Request(self.url + path, headers=headers)
        context = ssl.create_default_context(cafile=str(self.authority))
        try:
            with urllib.request.urlopen(asked, timeout=30, context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def codes(self, token: str, *paths: str) -> list[int]:
        return [self.get(path, token)[0] for path in paths or SECRET]

    def eventually(self, token: str, *codes: int) -> None:
        """Wait until a token gets these answers for the paths of `SECRET`."""
        eventually(lambda: self.codes(token) == list(codes))


def bind(role: str, name: str) -> tuple[str, ...]:
    return (
        "create",
        "clusterrolebinding",
        f"{role}-{name}",
        f"--clusterrole={role}",
        f"--serviceaccount=default:{name}",
    )


class Place:
    """The namespace scheduler of a meta cluster, at all addresses of this machine."""

    def __init__(self, bed: TestBed, folder: Path) -> None:
        self.system = System(bed, folder)
        self.meta, self.acme = bed.meta, bed.tenants["acme"]
        [port] = free_ports(1)
        authority = new_authority("status", time.time())
        pair = issue_serving(authority, ["127.0.0.1"], time.time())
        files = {"ca.crt": authority.certificate, "tls.crt": pair.certificate, "tls.key": pair.key}
        for name, text in files.items():
            (folder / name).write_text(text)
        self.door = Door(port, folder / "ca.crt")
        self.system.options[ROLE] = (
            *("--listen", f"0.0.0.0:{port}"),
            *("--tls-cert-file", str(folder / "tls.crt"), "--tls-private-key-file", str(folder / "tls.key")),
        )

    def token(self, name: str) -> str:
        """Create a user of the meta cluster, and return its token."""
        self.meta.kubectl("create", "serviceaccount", name)
        return self.meta.kubectl("create", "token", name).strip()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("status")
    system_folder = folder / "system"
    system_folder.mkdir()
    with TestBed(supers=1, nodes=1, tenants=("acme",), directory=folder / "bed") as bed:
        found = Place(bed, system_folder)
        try:
            found.system.install()
            found.system.spawn(ROLE)
            eventually(lambda: found.door.get("/readyz") == (200, "ok\n"))  # it leads
            yield found
        finally:
            found.system.stop()


def test_each_reads_what_the_meta_cluster_lets_them(place: Place) -> None:
    door = place.door
    stranger, prometheus, operator_token = (place.token(name) for name in ("stranger", "prometheus", "olga"))
    place.meta.kubectl(*bind("vcsync-metrics-reader", "prometheus"))
    place.meta.kubectl(*bind("vcsync-metrics-reader", "olga"))
    place.meta.kubectl(*bind("vcsync-status-reader", "olga"))
    door.eventually(operator_token, 200, 200, 200, 200)
    door.eventually(prometheus, 403, 403, 403, 200)
    assert door.codes(stranger) == [403] * 4
    assert door.codes("") == [401] * 4
    assert door.codes("no-token") == [401] * 4
    roles = place.system.role_directory
    own = next(
        line.split()[1]
        for line in (roles / f"{ROLE}.kubeconfig").read_text().splitlines()
        if "token:" in line
    )
    assert door.codes(own) == [403] * 4, "a role reads nothing by its own rights"
    for path, answers in HEALTH.items():
        assert door.get(path) in answers

    for path in SECRET:
        for token in ("", "no-token", stranger):
            text = door.get(path, token)[1]
            assert not any(name in text for name in ("acme", "r1", ROLE)), text

    document = msgspec.json.decode(door.get("/status", operator_token)[1], type=ProcessStatus)
    assert document.roles[ROLE].leader is True
    assert isinstance(document.roles[ROLE].super_clusters, dict)

    place.meta.kubectl("delete", "clusterrolebinding", "vcsync-status-reader-olga")
    door.eventually(operator_token, 403, 403, 403, 200)
    log = place.system.log(ROLE).read_text()
    assert not any(token in log for token in (stranger, prometheus, operator_token, own))


def test_the_command_reads_with_a_token_and_a_ca(place: Place, tmp_path: Path) -> None:
    token = place.token("reader")
    place.meta.kubectl(*bind("vcsync-status-reader", "reader"))
    place.door.eventually(token, 200, 200, 200, 403)
    (tmp_path / "token").write_text(token)
    shown = place.system.vcsync(
        *("status", "--endpoint", place.door.url),
        *("--endpoint-token-file", str(tmp_path / "token"), "--endpoint-ca", str(place.door.authority)),
    )
    assert ROLE in shown


def test_a_tenants_tokens_open_nothing(place: Place) -> None:
    place.acme.kubectl("create", "serviceaccount", "boss")
    place.acme.kubectl(
        "create", "clusterrolebinding", "boss", "--clusterrole=cluster-admin", "--serviceaccount=default:boss"
    )
    for token in (place.acme.kubectl("create", "token", "boss").strip(), place.acme.admin_token):
        assert place.door.codes(token) == [401] * 4


def test_nobody_is_let_in_while_the_meta_cluster_does_not_answer_or_lets_the_role_ask(place: Place) -> None:
    door, token = place.door, place.token("late")
    place.meta.kubectl(*bind("vcsync-status-reader", "late"))
    door.eventually(token, 200, 200, 200, 403)

    rules = json.loads(place.meta.kubectl("get", "clusterrole", f"vcsync-{ROLE}", "-o", "json"))["rules"]
    less = [rule for rule in rules if "tokenreviews" not in rule.get("resources", ())]
    assert len(less) == len(rules) - 1
    place.meta.kubectl(
        "patch", "clusterrole", f"vcsync-{ROLE}", "--type=merge", "-p", json.dumps({"rules": less})
    )
    eventually(lambda: door.get("/status", token)[0] == 503)
    assert "run 'vcsync install' again" in door.get("/status", token)[1]
    place.system.vcsync("install")
    eventually(lambda: door.get("/status", token)[0] == 200)

    place.meta.pause("kube-apiserver")
    try:
        eventually(lambda: door.get("/status", token)[0] == 503)
        code, text = door.get("/status", token)
        assert code == 503
        assert "does not answer" in text
        assert place.meta.url not in text
        assert door.get("/livez") == (200, "ok\n")
    finally:
        place.meta.resume("kube-apiserver")
    eventually(lambda: door.get("/status", token)[0] == 200)


def test_an_embedded_tenant_sees_only_itself(up: Up) -> None:
    [port] = free_ports(1)
    up.start("--tenants", "acme,other", "--hollow", "r1", "--status", f"0.0.0.0:{port}")
    door = Door(port, up.data / "ca.crt")
    tokens = {}
    for tenant in ("acme", "other"):
        up.kubectl("create serviceaccount boss", tenant)
        up.kubectl(
            "create clusterrolebinding boss --clusterrole=cluster-admin --serviceaccount=default:boss", tenant
        )
        tokens[tenant] = up.kubectl("create token boss", tenant).strip()
        up.kubectl("create configmap marks", tenant)
        assert door.codes(tokens[tenant]) == [401] * 4, "users of tenants are no users of the operator's"

    for mine, other in itertools.permutations(tokens):
        own = up.kubectl("get --raw /metrics", mine)
        assert "apiserver_request_total" in own
        assert f'"{other}"' not in own
        refused = up.kubectl(f"get --raw /tenants/{other}/metrics 2>&1 || true", mine)
        assert "apiserver_request_total" not in refused
        assert "Error from server" in refused

    operator(up, "kubectl create serviceaccount olga -n vcsync-system")
    operator(
        up,
        "kubectl create clusterrolebinding olga --clusterrole=vcsync-status-reader --serviceaccount=vcsync-system:olga",
    )
    token = operator(up, "kubectl create token olga -n vcsync-system").strip()
    door.eventually(token, 200, 200, 200, 403)
    document = msgspec.json.decode(door.get("/status", token)[1], type=ProcessStatus)
    assert {
        ROLE,
        "podscheduler",
        "syncer/r1",
        "tenants",
        "controllers",
        "controlplane",
    } <= document.roles.keys()
