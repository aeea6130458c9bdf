"""The options of hollow clusters, and of who may call their kubelets."""

import ssl
import time
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import click
import pytest

from vcsync.cli.controlplane_kubelets import kubelets_of, with_own_kubelets
from vcsync.cli.errors import WrongInputError
from vcsync.cli.hollow import hollow, hollow_settings, serving_of
from vcsync.cli.hollow_kubelets import kubelet_tls, read_keys
from vcsync.controlplane.egress.networks import Networks
from vcsync.controlplane.tenants import pki
from vcsync.simulate.chance import Latency


def given(*options: str) -> dict[str, Any]:
    with hollow.make_context("hollow", ["--kubeconfig", "/dev/null", *options]) as context:
        assert isinstance(context, click.Context)
        return dict(context.params)


def test_options_make_the_habits() -> None:
    settings = hollow_settings(
        given("--start", "2", "10", "--job", "1", "3", "--seed", "7", "--heartbeat", "10")
    )
    assert (settings.habits.start, settings.habits.job) == (Latency(2.0, 10.0), Latency(1.0, 3.0))
    assert (settings.habits.stop, settings.habits.seed, settings.beat) == (Latency(), 7, 10.0)
    assert hollow_settings(given()).beat is None


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


def test_keys_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("none")
    (tmp_path / "ca.key").write_text("none")
    with pytest.raises(WrongInputError, match="cannot be used"):
        kubelet_tls(read_keys(tmp_path), "127.0.0.1")


def test_a_space_is_named_with_a_network() -> None:
    found = kubelets_of({"kubelet_allow_network": ("r1=10.4.0.0/16",)})
    assert found.named(ip_address("10.4.0.1"), "r1")
    assert not found.named(ip_address("10.4.0.1"), "acme")


@pytest.mark.parametrize("text", ["10.4.0.0/16", "=10.4.0.0/16", "R1=10.4.0.0/16", "r1=", "r1=10.4.0.1/16"])
def test_networks_of_everybody_or_of_nothing_are_refused(text: str) -> None:
    with pytest.raises(WrongInputError, match="--kubelet-allow-network"):
        kubelets_of({"kubelet_allow_network": (text,)})


def test_vcsync_up_lets_only_its_hollow_clusters_be_called() -> None:
    found = with_own_kubelets(Networks(), ["r1", "r2"])
    assert [found.named(ip_address("127.0.0.1"), each) for each in ("r1", "r2", "acme")] == [
        True,
        True,
        False,
    ]
    assert not found.named(ip_address("127.0.0.2"), "r1")
