"""Parsing of input, and formatting of output."""

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from vcsync.api.fields import PercentOrQuantity
from vcsync.api.objects import SuperCluster
from vcsync.api.specs import FailureRecord, SuperClusterSpec, SuperClusterStatus
from vcsync.cli.command.common import meta_kubeconfig, parse_amounts, parse_endpoint
from vcsync.cli.command.endpoints import status_url
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.output import age, amounts, document, table
from vcsync.cli.explain import story
from vcsync.cli.registration.install import write_private
from vcsync.cli.run.commands import parse_shard
from vcsync.cli.super import commands as supers
from vcsync.kube.connection import Connection
from vcsync.kube.errors import CredentialsError
from vcsync.kube.kubeconfig import Cluster, parse
from vcsync.objects.readable_amounts import readable
from vcsync.process.legible import legible
from vcsync.registration.kubeconfigs import check_self_contained, read_admin, with_token
from vcsync.scheduling.ledger import Entry, Ledger
from vcsync.tenancy.health import Judgement, judge_stored

KNOWN = ("cpu", "memory", "pods")


def test_amounts_may_be_split_over_several_options() -> None:
    assert parse_amounts("--quota", ["cpu=2,memory=4Gi", " pods=10"], known=KNOWN) == {
        "cpu": "2",
        "memory": "4Gi",
        "pods": "10",
    }
    assert parse_amounts("--headroom", ["cpu=10%"], kind=PercentOrQuantity, known=KNOWN) == {"cpu": "10%"}


@pytest.mark.parametrize(
    "text", ["cpu", "=1", "cpu=", "cpu=-1", "cpu=10%", "cpu=1,cpu=2", "cpu=1,,memory=1", "cpus=1"]
)
def test_malformed_amounts_are_refused_by_the_options_name(text: str) -> None:
    with pytest.raises(WrongInputError, match="--quota"):
        parse_amounts("--quota", [text], known=KNOWN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("api.example:6443", ("api.example", 6443)),
        ("api.example", ("api.example", 443)),
        ("10.0.0.1:1", ("10.0.0.1", 1)),
        ("[fd00::1]:6443", ("fd00::1", 6443)),
        ("[fd00::1]", ("fd00::1", 443)),
    ],
)
def test_endpoints_are_split(text: str, expected: tuple[str, int]) -> None:
    assert parse_endpoint("--api-endpoint", text) == expected


@pytest.mark.parametrize("text", ["", ":1", "fd00::1", "a:0", "a:65536", "https://a:1", "a b:1", "a:\u0661"])
def test_malformed_endpoints_are_refused(text: str) -> None:
    with pytest.raises(WrongInputError, match="--api-endpoint"):
        parse_endpoint("--api-endpoint", text)


@pytest.mark.parametrize(("text", "expected"), [(None, (1, 1)), ("1/1", (1, 1)), ("3/4", (3, 4))])
def test_shards_are_parsed(text: str | None, expected: tuple[int, int]) -> None:
    assert parse_shard(text) == expected


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "1/0", "a/b", "1/4/5", "-1/4"])
def test_malformed_shards_are_refused(text: str) -> None:
    with pytest.raises(WrongInputError, match="--shard"):
        parse_shard(text)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("127.0.0.1:1", "http://127.0.0.1:1/status"),
        ("http://host:1/", "http://host:1/status"),
        ("https://host/status", "https://host/status"),
        ("localhost:1", "http://localhost:1/status"),
        ("[::1]:1", "http://[::1]:1/status"),
        ("10.0.0.7:8080", "https://10.0.0.7:8080/status"),
        ("status.example:8080", "https://status.example:8080/status"),
        ("https://127.0.0.1:1", "https://127.0.0.1:1/status"),
    ],
)
def test_status_urls(endpoint: str, url: str) -> None:
    assert status_url(endpoint) == url


def test_sources_of_the_meta_clusters_kubeconfig_have_an_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VCSYNC_META", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert meta_kubeconfig(None) is None
    monkeypatch.setenv("KUBECONFIG", "/kube")
    assert meta_kubeconfig(None) == "/kube"
    monkeypatch.setenv("VCSYNC_META", "/meta")
    assert meta_kubeconfig(None) == "/meta"
    assert meta_kubeconfig("/given") == "/given"


def test_the_default_kubeconfig_is_that_of_vcsync_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("VCSYNC_META", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert meta_kubeconfig(None) is None
    (tmp_path / "vcsync-data").mkdir()
    (tmp_path / "vcsync-data" / "admin.kubeconfig").touch()
    assert meta_kubeconfig(None) == "vcsync-data/admin.kubeconfig"
    assert meta_kubeconfig("/given") == "/given"
    monkeypatch.setattr(os, "geteuid", lambda: 4711)  # it belongs to somebody else: it could start programs
    assert meta_kubeconfig(None) is None
    monkeypatch.undo()


def test_in_a_pod_the_in_cluster_credentials_come_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("VCSYNC_META", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vcsync-data").mkdir()
    (tmp_path / "vcsync-data" / "admin.kubeconfig").touch()
    assert meta_kubeconfig(None) is None


NOW = datetime(2026, 1, 10, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("2026-01-10T11:59:55Z", "5s"),
        ("2026-01-10T11:58:30Z", "90s"),
        ("2026-01-10T11:57:00Z", "3m"),
        ("2026-01-10T11:00:00Z", "1h"),
        ("2026-01-08T11:00:00Z", "2d"),
        ("2026-01-10T12:00:10Z", "0s"),
        (None, ""),
    ],
)
def test_ages_are_short(when: str | None, expected: str) -> None:
    assert age(when, NOW) == expected


def judged(one: SuperCluster) -> Judgement:
    return judge_stored(one, datetime.now(UTC))


@pytest.mark.parametrize(
    ("amount", "resource", "expected"),
    [
        ("64", "cpu", "64"),
        ("303600m", "cpu", "303.6"),
        ("303620m", "requests.cpu", "303.6"),
        ("1500m", "cpu", "1.5"),
        ("500m", "cpu", "500m"),
        ("0", "cpu", "0"),
        ("1k", "cpu", "1000"),
        ("274877906944", "memory", "256Gi"),
        ("524288", "limits.memory", "512Ki"),
        ("1000000", "memory", "977Ki"),
        ("1073741823", "memory", "1Gi"),
        ("1023Mi", "memory", "1023Mi"),
        ("512", "memory", "512"),
        ("0", "memory", "0"),
        ("1G", "hugepages-2Mi", "954Mi"),
        ("16777216", "object-bytes", "16Mi"),
        ("110", "pods", "110"),
        ("1k", "pods", "1000"),
        ("1100k", "count/configmaps", "1100000"),
        ("odd", "cpu", "odd"),
    ],
)
def test_amounts_are_readable(amount: str, resource: str, expected: str) -> None:
    assert readable(amount, resource) == expected


def test_free_amounts_exclude_slices_in_the_ledger() -> None:
    status = SuperClusterStatus(allocatable={"cpu": "320", "pods": "100"}, free={"cpu": "1", "pods": "1"})
    spec = SuperClusterSpec(id="r1", headroom={"cpu": "10%"}, overcommit={"pods": "250%"})
    one = SuperCluster(name="r1", uid="u", spec=spec, status=status)
    ledger = Ledger()
    ledger.put(("acme", "shop"), Entry({"cpu": 2_050, "memory": 1000, "pods": 20_000}, {"r1": 8, "r2": 1}))
    assert supers.row(one, ledger, judged(one))[3] == "271.6 of 288"
    assert supers.row(one, ledger, judged(one))[5] == "90 of 250"
    assert supers.row(one, ledger, judged(one))[4] == "", "no node says how much memory it has"
    shown = supers.as_plain(one, ledger, judged(one))
    assert shown["capacity"] == {"cpu": "288", "pods": "250"}
    assert shown["dealt"] == {"cpu": "16400m", "memory": "8", "pods": "160"}
    assert shown["free"] == {"cpu": "271600m", "pods": "90"}


def test_an_invalid_headroom_is_shown_in_the_scheduling_state() -> None:
    status = SuperClusterStatus(allocatable={"cpu": "320"})
    one = SuperCluster(name="r1", spec=SuperClusterSpec(id="r1", headroom={"cpu": "ten"}), status=status)
    assert supers.row(one, Ledger(), judged(one))[3] == ""
    assert (
        "spec.headroom.cpu: 'ten'"
        in supers.row(one, Ledger(), judged(one))[supers.HEADER.index("SCHEDULING")]
    )
    assert "spec.headroom.cpu: 'ten'" in supers.as_plain(one, Ledger(), judged(one))["problem"]


@pytest.mark.parametrize(
    ("age", "shown"),
    [(10, "Ready"), (100, "Suspect (no heartbeat for 100s)"), (480, "Lost (no heartbeat for 8m)")],
)
def test_health_depends_on_the_age_of_the_last_heartbeat(age: int, shown: str) -> None:
    beat = (datetime.now(UTC) - timedelta(seconds=age)).isoformat()
    status = SuperClusterStatus(heartbeat_time=beat)
    one = SuperCluster(name="r1", uid="u", spec=SuperClusterSpec(id="r1"), status=status)
    assert supers.row(one, Ledger(), judged(one))[supers.HEADER.index("HEALTH")].startswith(
        shown.partition("(")[0].strip()
    )
    assert supers.as_plain(one, Ledger(), judged(one))["health"]["state"] == shown.partition(" ")[0]


def test_health_is_what_the_schedulers_have_recorded() -> None:
    beat, since = ((datetime.now(UTC) - timedelta(seconds=age)).isoformat() for age in (100, 40))
    record = FailureRecord(state="Lost", since=since, suspect_after_seconds=30, lost_after_seconds=45)
    status = SuperClusterStatus(heartbeat_time=beat, failure=record)
    one = SuperCluster(name="r1", uid="u", spec=SuperClusterSpec(id="r1"), status=status)
    assert supers.row(one, Ledger(), judged(one))[supers.HEADER.index("HEALTH")].startswith(
        "Lost (no heartbeat"
    )
    shown = supers.as_plain(one, Ledger(), judged(one))["health"]
    assert (shown["state"], shown["sinceSeconds"] >= 40) == ("Lost", True)


def test_explanations_use_singular_and_plural() -> None:
    assert (
        story._amounts({"cpu": "303600m", "memory": "1073741824", "pods": "1"})
        == "303.6 cpu, 1Gi memory, 1 pod"
    )


def test_amounts_in_one_cell() -> None:
    assert amounts({"memory": "4Gi", "cpu": "2", "pods": "10"}) == "cpu=2,memory=4Gi"


def test_tables_align_and_show_empty_cells() -> None:
    assert table(("A", "LONG"), [("wide", ""), ("x", "y")]) == "A     LONG\nwide  -\nx     y"


def test_equal_values_are_written_out_in_yaml() -> None:
    shared = {"a": 1}
    assert yaml.safe_load(document([shared, shared], "yaml")) == [shared, shared]
    assert "&" not in document([shared, shared], "yaml")


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://host:6443", certificate-authority: ca.crt, tls-server-name: api}}]
users: [{name: u, user: {client-certificate: c.crt, client-key: c.key}}]
"""


def test_a_roles_kubeconfig_reaches_the_same_server_and_needs_no_file(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"the authority")
    (tmp_path / "config").write_text(KUBECONFIG)
    admin = read_admin(tmp_path / "config")
    made = with_token(admin.cluster, name="r1", user="vcsync-syncer", token="secret-token")
    parsed = parse(made)
    assert parsed.cluster.server == "https://host:6443"
    assert parsed.cluster.tls_server_name == "api"
    assert parsed.cluster.certificate_authority_data == "dGhlIGF1dGhvcml0eQ=="
    assert parsed.user.token == "secret-token"
    check_self_contained(made)
    Connection.from_kubeconfig_bytes(made)


def test_a_kubeconfig_that_names_files_cannot_be_stored_as_given(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    with pytest.raises(CredentialsError, match="certificate-authority works on this machine only"):
        read_admin(tmp_path / "config", as_given=True)


def test_a_missing_authority_is_named(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    with pytest.raises(CredentialsError, match="certificate-authority"):
        read_admin(tmp_path / "config")


def test_a_kubeconfigs_system_authorities_stay(tmp_path: Path) -> None:
    made = with_token(Cluster(server="https://host"), name="r1", user="u", token="t")
    assert yaml.safe_load(made)["clusters"][0]["cluster"] == {"server": "https://host"}


def test_a_temporary_file_of_a_killed_process_with_the_same_pid_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / f".secret.{os.getpid()}").write_bytes(b"half")
    write_private(tmp_path / "secret", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("secret", b"new")]


def test_credentials_are_written_for_their_owner_only(tmp_path: Path) -> None:
    target = tmp_path / "syncer.kubeconfig"
    target.write_text("old")
    target.chmod(0o644)
    old = os.umask(0)
    try:
        write_private(target, b"new")
    finally:
        os.umask(old)
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [target]


HOSTILE = "all\x1b[2J is\x9b31m\nwell\u202e"


def test_control_characters_of_tenants_are_escaped_in_tables() -> None:
    assert legible(HOSTILE) == r"all\u001b[2J is\u009b31m\u000awell\u202e"
    assert legible("Grüße, 世界: fine") == "Grüße, 世界: fine"
    assert table(("NAME",), [(HOSTILE,)]).splitlines() == ["NAME", legible(HOSTILE)]


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_control_characters_of_tenants_are_escaped_in_json_and_yaml(form: str) -> None:
    text = document({"message": HOSTILE}, form)
    assert yaml.safe_load(text) == {"message": HOSTILE}
    assert text.replace("\n", "").isprintable()
