"""The settings that `vcsync up` derives from its options and its file."""

import socket
import tempfile
from pathlib import Path

import pytest

from vcsync.cli.command import config
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.main import main
from vcsync.cli.up import process as up_process
from vcsync.cli.up.commands import listen_at, members_of, wanted_of
from vcsync.cli.up.settings import Wanted, free_port

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://east.example:6443"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""


@pytest.fixture
def east(tmp_path: Path) -> str:
    (tmp_path / "east.kubeconfig").write_text(KUBECONFIG)
    return f"east={tmp_path}/east.kubeconfig"


@pytest.mark.parametrize(
    ("with_real", "hollow", "pretending"),
    [
        (False, None, ("r1", "r2")),
        (False, "a,b,c", ("a", "b", "c")),
        (False, "", ()),
        (True, None, ()),
        (True, "r1", ("r1",)),
    ],
)
def test_real_super_clusters_replace_hollow_ones_or_are_added_to_them(
    east: str, with_real: bool, hollow: str | None, pretending: tuple[str, ...]
) -> None:
    members = members_of("acme,umbrella", (east,) if with_real else (), hollow, "", "cpu=4")
    assert (members.tenants, members.hollow) == (("acme", "umbrella"), pretending)
    assert [admin.cluster.server for admin in members.real.values()] == [
        "https://east.example:6443"
    ] * with_real


def test_the_port_in_kubeconfigs_stays(tmp_path: Path) -> None:
    (tmp_path / "listen").write_text("127.0.0.1:7001\n")
    assert listen_at(tmp_path) == ("127.0.0.1", 7001)
    assert listen_at(tmp_path, "0.0.0.0:7002") == ("0.0.0.0", 7002)


def test_a_port_in_use_is_not_chosen() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        taken = other.getsockname()[1]
        assert free_port(taken) != taken


def test_a_port_with_just_closed_connections_is_chosen_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            server.accept()[0].close()  # who closes first keeps the port for a minute
            assert client.recv(1) == b""
    assert free_port(port) == port


def test_a_damaged_memory_of_the_port_is_named(tmp_path: Path) -> None:
    (tmp_path / "listen").touch()
    with pytest.raises(WrongInputError, match=rf"^{tmp_path}/listen: .*--listen"):
        listen_at(tmp_path)
    assert listen_at(tmp_path, "127.0.0.1:7001") == ("127.0.0.1", 7001)


def test_all_sections_of_the_file_apply(tmp_path: Path) -> None:
    path = tmp_path / "vcsync.yaml"
    path.write_text(
        "up: {tenants: [acme]}\n"
        "controlplane: {listen: '[::1]:7003', max-watches-per-tenant: 7, etcd: 'http://etcd:2379'}\n"
        "nsscheduler: {policy: pack}\nsyncer: {brake-share: 0.5}\ncommon: {lost-after: 900}\nhollow: {cpu: 8}\n"
    )
    wanted = wanted_of(config.read(path), tmp_path, members_of("acme", (), None, "", ""), nodes=5)
    assert wanted.plane.data == tmp_path
    assert wanted.plane.listen == ("::1", 7003)
    assert wanted.plane.limits.watches == 7
    assert wanted.plane.etcd is not None
    assert wanted.plane.etcd.endpoints == ("http://etcd:2379",)
    assert (wanted.cluster.nodes, wanted.cluster.shape.cpu) == (5, "8")
    assert (wanted.tuning.policy, wanted.tuning.brake_share, wanted.tuning.lost_after) == ("pack", 0.5, 900.0)


def test_the_listen_option_has_precedence_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "vcsync.yaml"
    path.write_text("controlplane: {listen: '127.0.0.1:7003'}")
    wanted = wanted_of(
        config.read(path), tmp_path, members_of("", (), None, "", ""), nodes=1, listen="127.0.0.1:7004"
    )
    assert wanted.plane.listen == ("127.0.0.1", 7004)


@pytest.mark.parametrize(
    ("text", "given", "seconds"),
    [
        ("{}", None, 60.0),
        ("syncer: {unschedulable-seconds: 20}", None, 20.0),
        ("syncer: {unschedulable-seconds: 20}", 5.0, 5.0),
        ("{}", 0.0, 0.0),
    ],
)
def test_the_time_until_a_pod_is_tried_elsewhere_is_that_of_the_option_or_of_the_syncer(
    text: str, given: float | None, seconds: float, tmp_path: Path
) -> None:
    path = tmp_path / "vcsync.yaml"
    path.write_text(text)
    members = members_of("", (), None, "", "")
    wanted = wanted_of(config.read(path), tmp_path, members, nodes=1, unschedulable_seconds=given)
    assert wanted.tuning.unschedulable_seconds == seconds


def test_up_passes_the_time_until_a_pod_is_tried_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Wanted] = []
    monkeypatch.setattr(up_process, "serve", lambda wanted, *_: served.append(wanted))
    assert main(["up", "--data", str(tmp_path), "--unschedulable-seconds", "7"]) == 0
    assert served[0].tuning.unschedulable_seconds == 7.0


@pytest.mark.parametrize(("options", "folders"), [(["--data", "data"], 0), (["--ephemeral"], 1)])
def test_only_an_ephemeral_system_uses_a_temporary_folder(
    options: list[str], folders: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found: list[int] = []
    monkeypatch.setattr(up_process, "serve", lambda *_: found.append(len(list(tmp_path.iterdir()))))
    assert main(["up", *options]) == 0
    assert found == [folders]
    assert list(tmp_path.iterdir()) == []
