"""The options of hollow clusters, and of calls to their kubelets."""

import ssl
import time
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import click
import pytest

from vcsync.apiserver.egress.networks import Networks
from vcsync.apiserver.tenants import pki
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.controlplane.kubelet_options import kubelets_of, with_own_kubelets
from vcsync.cli.hollow.commands import hollow, hollow_settings, serving_of
from vcsync.cli.hollow.kubelets import kubelet_tls, read_keys
from vcsync.simulate.chance import Latency


def given(*options: str) -> dict[str, Any]:
    with hollow.make_context("hollow", ["--kubeconfig", "/dev/null", *options]) as context:
        assert isinstance(context, click.Context)
        return dict(context.params)


def test_options_become_the_kubelets_behaviour() -> None:
    settings = hollow_settings(
        given("--start", "2", "10", "--job", "1", "3", "--seed", "7", "--heartbeat", "10")
    )
    assert (settings.behaviour.start, settings.behaviour.job) == (Latency(2.0, 10.0), Latency(1.0, 3.0))
    assert (settings.behaviour.stop, settings.behaviour.seed, settings.beat) == (Latency(), 7, 10.0)
    assert hollow_settings(given()).beat is None


@pytest.mark.parametrize(
    ("options", "tells"),
    [
        ((), True),
        (("--nodes", "101"), False),
        (("--nodes", "101", "--container-events"), True),
        (("--no-container-events",), False),
    ],
)
def test_large_clusters_do_not_tell_of_containers_by_default(options: tuple[str, ...], tells: bool) -> None:
    assert hollow_settings(given(*options)).tells_of_containers is tells


def test_kubelets_serve_only_with_the_clusters_keys(tmp_path: Path) -> None:
    assert serving_of(given()) is None
    with pytest.raises(WrongInputError, match="vcsync tenant export"):
        serving_of(given("--keys", str(tmp_path)))
    authority = pki.new_authority("r1", time.time())
    (tmp_path / "ca.crt").write_text(authority.certificate)
    (tmp_path / "ca.key").write_text(authority.key)
    serving = serving_of(given("--keys", str(tmp_path), "--kubelets", "127.0.0.1:10250"))
    assert serving is not None
    assert (serving.host, serving.port, serving.tls.verify_mode) == ("127.0.0.1", 10250, ssl.CERT_REQUIRED)


def test_invalid_keys_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("none")
    (tmp_path / "ca.key").write_text("none")
    with pytest.raises(WrongInputError, match="cannot be used"):
        kubelet_tls(read_keys(tmp_path), "127.0.0.1")


def test_a_network_is_allowed_for_a_space() -> None:
    found = kubelets_of({"kubelet_allow_network": ("r1=10.4.0.0/16",)})
    assert found.named(ip_address("10.4.0.1"), "r1")
    assert not found.named(ip_address("10.4.0.1"), "acme")


@pytest.mark.parametrize("text", ["10.4.0.0/16", "=10.4.0.0/16", "R1=10.4.0.0/16", "r1=", "r1=10.4.0.1/16"])
def test_malformed_networks_are_refused(text: str) -> None:
    with pytest.raises(WrongInputError, match="--kubelet-allow-network"):
        kubelets_of({"kubelet_allow_network": (text,)})


def test_vcsync_up_allows_calls_only_to_its_hollow_clusters() -> None:
    found = with_own_kubelets(Networks(), ["r1", "r2"])
    assert [found.named(ip_address("127.0.0.1"), each) for each in ("r1", "r2", "acme")] == [
        True,
        True,
        False,
    ]
    assert not found.named(ip_address("127.0.0.2"), "r1")
