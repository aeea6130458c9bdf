"""`vcsync run controlplane` and the commands for embedded tenants: their input, and their requests to the server."""

import json
import stat
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from vcsync.cli.command.main import main
from vcsync.cli.controlplane.process import endpoint_of
from vcsync.cli.controlplane.settings import ControlPlaneSettings


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VCSYNC_META", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "controlplane"], "Missing option '--data'"),
        (["run", "controlplane", "--data", "d", "--listen", "here"], "listen address 'here'"),
        (["run", "controlplane", "--data", "d", "--listen", "127.0.0.1:0"], "need a fixed port"),
        (["run", "controlplane", "--data", "d", "--advertise", "a:b:c"], "--advertise 'a:b:c'"),
        (["run", "controlplane", "--data", "d", "--token-file", "/nowhere"], "/nowhere"),
        (["run", "controlplane", "--data", "d", "--etcd-cert", "/dev/null"], "belong together"),
        (["run", "controlplane", "--data", "d", "--audit-log-path", "d"], "belong together"),
        (["run", "controlplane", "--data", "d", "--audit-policy-file", "/dev/null"], "belong together"),
        (
            ["run", "controlplane", "--data", "d", "--tenant-domain", "example"],
            "--tenant-domain 'example': TLS clients accept no wildcard certificate for it",
        ),
        (
            ["run", "controlplane", "--data", "d", "--tenant-domain", "a.b", "--advertise", "door.a.b:6443"],
            "--tenant-domain 'a.b': 'door.a.b' would be the host name of a tenant",
        ),
        (
            ["run", "controlplane", "--data", "d", "--tenant-domain", "a.b", "--name", "X.A.B"],
            "--tenant-domain 'a.b': 'X.A.B' would be the host name of a tenant",
        ),
        (["tenant", "create", "a.b", "--data", "d"], "'a.b' is not a tenant name"),
        (["tenant", "create", "all", "--data", "d"], "'all' cannot be a tenant's name: it is reserved"),
        (["tenant", "create", "acme", "--data", "/nowhere"], "/nowhere/admin.kubeconfig does not exist"),
        (["tenant", "create", "acme", "--data", "d", "--meta", "m"], "give one"),
        (["tenant", "create", "acme"], "give a kubeconfig file"),
        (["tenant", "create", "acme", "--controllers", "none"], "'none' is not one of 'vcsync', 'external'"),
        (["tenant", "show", "A"], "'A' is not a tenant name"),
        (["tenant", "set", "A", "--controllers", "vcsync"], "'A' is not a tenant name"),
        (["tenant", "set", "acme", "--storage", "much"], "--storage 'much': give bytes"),
        (["tenant", "set", "acme", "--objects", "-1"], "--objects '-1': give a number, or default"),
        (
            ["tenant", "set", "acme"],
            "give at least one option: --weight, --quota, --default-quota, --slice-size, --failover, --fail-back, --pod-",
        ),
        (["tenant", "delete", "A"], "'A' is not a tenant name"),
        (["tenant", "rotate", "A"], "'A' is not a tenant name"),
        (["tenant", "kubeconfig", "../x"], "'../x' is not a tenant name"),
        (["tenant", "export", "acme"], "give either -o FILE for the objects or --dir DIR for the keys"),
    ],
)
def test_wrong_input_is_one_line_and_code_2(
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["create", "show", "set", "kubeconfig", "delete", "rotate", "export"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tenant", command, "--help"]) == 0
    assert f"vcsync tenant {command} acme" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("listen", "advertise", "url"),
    [
        (("127.0.0.1", 6443), None, "https://127.0.0.1:6443"),
        (("::1", 6443), None, "https://[::1]:6443"),
        (("0.0.0.0", 6443), ("cp.example", 443), "https://cp.example:443"),
    ],
)
def test_addresses_in_kubeconfigs(
    listen: tuple[str, int], advertise: tuple[str, int] | None, url: str, tmp_path: Path
) -> None:
    settings = ControlPlaneSettings(tmp_path, listen, advertise, (), None, None)
    assert endpoint_of(settings).url == endpoint_of(settings).url_of("acme") == url
    named = endpoint_of(replace(settings, tenant_domain="tenants.example.com"))
    assert (named.url, named.url_of("system")) == (url, url)
    assert named.url_of("acme") == f"https://acme.tenants.example.com:{url.rpartition(':')[2]}"


class StandIn(BaseHTTPRequestHandler):
    """Answers from a table, and records all requests."""

    asked: list[tuple[str, str, bytes]]
    answers: dict[str, tuple[int, bytes]]

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.asked.append((self.command, self.path, body))
        code, content = self.answers.get(self.path, (200, b"{}"))
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[type[StandIn]]:
    StandIn.asked, StandIn.answers = [], {}
    listening = HTTPServer(("127.0.0.1", 0), StandIn)
    thread = Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    document = {
        "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{listening.server_port}"}}],
        "users": [{"name": "x", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "current-context": "x",
    }
    (tmp_path / "admin.kubeconfig").write_text(yaml.safe_dump(document))
    yield StandIn
    listening.shutdown()
    thread.join()
    listening.server_close()


def status(code: int, reason: str, message: str) -> tuple[int, bytes]:
    return code, json.dumps({"kind": "Status", "reason": reason, "message": message, "code": code}).encode()


def test_create_prints_the_next_command(
    server: type[StandIn], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tenant", "create", "acme", "--data", str(tmp_path)]) == 0
    body = b'{"name":"acme","controllers":"vcsync","nodes":"virtual"}'
    assert server.asked == [("POST", "/vcsync/v1/tenants", body)]
    out = capsys.readouterr().out
    assert f"next: vcsync tenant kubeconfig acme --data {tmp_path} > acme.kubeconfig" in out


def test_a_tenants_controllers_are_set_changed_and_shown(
    server: type[StandIn], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, reach = "/vcsync/v1/tenants/acme", ["--data", str(tmp_path)]
    assert main(["tenant", "create", "acme", "--controllers", "external", "--nodes", "own", *reach]) == 0
    assert main(["tenant", "set", "acme", "--controllers", "vcsync", *reach]) == 0
    assert server.asked == [
        ("POST", "/vcsync/v1/tenants", b'{"name":"acme","controllers":"external","nodes":"own"}'),
        ("PATCH", path, b'{"controllers":"vcsync"}'),
    ]
    shown = {"name": "acme", "uid": "1", "created": "now", "phase": "Ready", "controllers": "external"}
    server.answers[path] = (200, json.dumps(shown).encode())
    capsys.readouterr()
    assert main(["tenant", "show", "acme", *reach]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NAME", "PHASE", "CONTROLLERS", "CREATED"],
        ["acme", "Ready", "external", "now"],
    ]


def test_a_tenants_storage_limits_are_sent(server: type[StandIn], tmp_path: Path) -> None:
    path, reach = "/vcsync/v1/tenants/acme", ["--data", str(tmp_path)]
    assert main(["tenant", "set", "acme", "--storage", "10Gi", "--objects", "default", *reach]) == 0
    assert main(["tenant", "set", "acme", "--storage", "default", "--objects", "0", *reach]) == 0
    assert server.asked == [
        ("PATCH", path, b'{"storageBytes":10737418240,"storageObjects":null}'),
        ("PATCH", path, b'{"storageBytes":null,"storageObjects":0}'),
    ]


def test_the_admin_kubeconfig_is_also_taken_from_the_environment(
    server: type[StandIn], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCSYNC_META", str(tmp_path / "admin.kubeconfig"))
    pool = "/apis/tenancy.x-k8s.io/v1alpha1/virtualclusters?limit=500"
    server.answers[pool] = NO_SUCH_PATH
    assert main(["tenant", "rotate", "acme"]) == 0
    assert server.asked == [("POST", "/vcsync/v1/tenants/acme/rotate", b""), ("GET", pool, b"")]


def test_the_next_command_reaches_the_same_control_plane(
    server: type[StandIn], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers[POOL] = NO_SUCH_PATH
    assert main(["tenant", "rotate", "acme", "--data", str(tmp_path)]) == 0
    assert f"next: vcsync tenant kubeconfig acme --data {tmp_path} >" in capsys.readouterr().out


def test_a_kubeconfig_is_printed_as_it_is(
    server: type[StandIn], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = "/vcsync/v1/tenants/acme/kubeconfig?user=a+b%26c&group=g1&group=g2&host=name"
    server.answers[path] = (200, b"apiVersion: v1\n")
    arguments = ["tenant", "kubeconfig", "acme", "--user", "a b&c", "--group", "g1", "--group", "g2"]
    assert main([*arguments, "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "apiVersion: v1\n"


NO_SUCH_PATH = status(404, "NotFound", "the server could not find the requested resource")
NO_SUCH_TENANT = status(404, "NotFound", 'tenants "acme" not found')
KNOWN_ALREADY = status(409, "AlreadyExists", 'tenants "acme" already exists')
ELSEWHERE = status(403, "Forbidden", "forbidden: the credential is not valid here")
BASE = "/vcsync/v1/tenants"
POOL = "/apis/tenancy.x-k8s.io/v1alpha1/virtualclusters?limit=500"
RECORD = "/apis/tenancy.x-k8s.io/v1alpha1/tenants/acme"


@pytest.mark.parametrize(
    ("command", "path", "answer", "said"),
    [
        ("create", BASE, KNOWN_ALREADY, "tenant acme exists already"),
        ("delete", f"{BASE}/acme?gracePeriodSeconds=300", NO_SUCH_TENANT, "tenant acme does not exist"),
        ("rotate", f"{BASE}/acme/rotate", NO_SUCH_PATH, "is not an embedded control plane"),
        ("delete", f"{BASE}/acme?gracePeriodSeconds=300", ELSEWHERE, "the credential is not valid here"),
    ],
)
def test_a_refusal_of_the_server_is_one_line_and_code_1(
    server: type[StandIn],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    path: str,
    answer: tuple[int, bytes],
    said: str,
) -> None:
    server.answers[path] = answer
    server.answers[POOL] = server.answers[RECORD] = NO_SUCH_PATH
    assert main(["tenant", command, "acme", "--data", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1


def test_exported_keys_are_for_their_owner_only(server: type[StandIn], tmp_path: Path) -> None:
    files = {"ca.key": "secret", "ca.crt": "public"}
    server.answers["/vcsync/v1/tenants/acme/export"] = (200, json.dumps({"files": files}).encode())
    target = tmp_path / "keys"
    for _ in range(2):
        assert main(["tenant", "export", "acme", "--dir", str(target), "--data", str(tmp_path)]) == 0
    assert {path.name: path.read_text() for path in target.iterdir()} == files
    assert {stat.S_IMODE(path.stat().st_mode) for path in target.iterdir()} == {0o600}
    assert stat.S_IMODE(target.stat().st_mode) == 0o700


def test_file_names_that_leave_the_folder_are_refused(server: type[StandIn], tmp_path: Path) -> None:
    server.answers["/vcsync/v1/tenants/acme/export"] = (200, b'{"files":{"../evil":"x"}}')
    target = tmp_path / "keys"
    assert main(["tenant", "export", "acme", "--dir", str(target), "--data", str(tmp_path)]) == 1
    assert not (tmp_path / "evil").exists()


def test_tenants_of_a_control_plane_are_listed(
    server: type[StandIn], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = {"name": "acme", "uid": "u", "created": "2026-01-01T00:00:00Z", "phase": "Ready"}
    item |= {"controllers": "vcsync", "nodes": "virtual", "server": "", "aside": ""}
    server.answers[BASE] = (200, json.dumps({"items": [item]}).encode())
    assert main(["tenant", "list", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == [
        "NAME",
        "PHASE",
        "CONTROLLERS",
        "CREATED",
        "acme",
        "Ready",
        "vcsync",
        "2026-01-01T00:00:00Z",
    ]
    assert main(["tenant", "list", "--data", str(tmp_path), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [item]


def test_a_tenant_that_is_set_aside_is_shown_and_released(
    server: type[StandIn], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = {"name": "acme", "uid": "u", "created": "2026-01-01T00:00:00Z", "phase": "Ready"}
    item |= {"controllers": "vcsync", "aside": "its work stalled the server 2 times"}
    server.answers[f"{BASE}/acme"] = (200, json.dumps(item).encode())
    assert main(["tenant", "show", "acme", "--data", str(tmp_path), "-o", "wide"]) == 0
    told = capsys.readouterr().out
    assert "SetAside" in told
    assert "its work stalled the server 2 times" in told
    server.answers[f"{BASE}/acme/release"] = (200, json.dumps(item).encode())
    assert main(["tenant", "release", "acme", "--data", str(tmp_path)]) == 0
    assert "acme is served again" in capsys.readouterr().out


@pytest.mark.parametrize(("options", "grace"), [((), 300), (("--grace-period", "7"), 7), (("--force",), 0)])
def test_a_deletion_revokes_credentials_first_and_reports_the_end(
    server: type[StandIn],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    grace: int,
) -> None:
    server.answers[POOL] = server.answers[RECORD] = NO_SUCH_PATH
    server.answers[f"{BASE}/acme"] = NO_SUCH_TENANT
    assert main(["tenant", "delete", "acme", "--data", str(tmp_path), *options]) == 0
    record, first = server.asked[:2]
    assert record == ("GET", RECORD, b"")
    assert first == ("DELETE", f"{BASE}/acme?gracePeriodSeconds={grace}", b"")
    assert capsys.readouterr().out.splitlines() == [
        "credentials of tenant acme are invalid from now on",
        "tenant acme is deleted",
    ]


def test_a_waiting_deletion_names_the_finalizers_and_the_remedy(
    server: type[StandIn], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = {"objects": 2, "held": [["example.com/keep", 2]], "more": False}
    state = {"name": "acme", "phase": "Draining", "deadline": "2026-01-01T00:05:00Z", "left": left}
    server.answers[POOL] = server.answers[RECORD] = NO_SUCH_PATH
    server.answers[f"{BASE}/acme"] = (200, json.dumps(state).encode())
    assert main(["tenant", "delete", "acme", "--data", str(tmp_path), "--timeout", "1"]) == 1
    captured = capsys.readouterr()
    assert "until 2026-01-01T00:05:00Z for these finalizers on objects: example.com/keep (2)" in captured.out
    assert "--force" in captured.err


def test_a_deletion_can_continue_without_the_command(
    server: type[StandIn], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers[POOL] = server.answers[RECORD] = NO_SUCH_PATH
    assert main(["tenant", "delete", "acme", "--data", str(tmp_path), "--no-wait"]) == 0
    assert "again to wait for the end" in capsys.readouterr().out


MANAGED = {
    "apiVersion": "tenancy.x-k8s.io/v1alpha1",
    "kind": "Tenant",
    "metadata": {"name": "acme", "finalizers": ["tenancy.x-k8s.io/tenant"]},
    "spec": {},
}


def test_a_managed_tenant_is_deleted_by_its_object(
    server: type[StandIn], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers[RECORD] = (200, json.dumps(MANAGED).encode())
    server.answers[f"{BASE}/acme?gracePeriodSeconds=300"] = NO_SUCH_PATH
    assert main(["tenant", "delete", "acme", "--data", str(tmp_path), "--no-wait"]) == 0
    assert [(method, path) for method, path, _ in server.asked] == [
        ("GET", RECORD),
        ("DELETE", RECORD),
        ("DELETE", f"{BASE}/acme?gracePeriodSeconds=300"),
    ]
    assert "again to wait for the end" in capsys.readouterr().out


def test_a_managed_tenant_is_not_removed_from_the_pool_alone(
    server: type[StandIn], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers[RECORD] = (200, json.dumps(MANAGED).encode())
    monkeypatch.setenv("VCSYNC_META", str(tmp_path / "admin.kubeconfig"))
    assert main(["tenant", "remove", "acme"]) == 1
    assert "'kubectl delete tenant acme'" in capsys.readouterr().err
    assert [method for method, _, _ in server.asked] == ["GET"]
