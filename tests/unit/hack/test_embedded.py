"""A program of the test tools that does not become ready leaves no process behind."""

import sys
from pathlib import Path

import pytest

from hack import embedded, etcd
from hack.embedded import ControlPlane, ControlPlaneError
from hack.etcd import Etcd, EtcdError

WAITS = "import time; time.sleep(600)"


def test_a_control_plane_that_is_not_ready_in_time_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "READY_SECONDS", 0.0)
    monkeypatch.setattr(embedded, "_vcsync", lambda: [sys.executable, "-c", WAITS])
    plane = ControlPlane(tmp_path)
    with pytest.raises(ControlPlaneError, match="not ready"), plane:
        pass
    with pytest.raises(ControlPlaneError, match="does not run"):
        _ = plane.pid


def test_an_etcd_that_is_not_ready_in_time_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd, "READY_SECONDS", 0.0)
    monkeypatch.setattr(etcd, "ensure", lambda _: {"etcd": sys.executable})
    monkeypatch.setattr(etcd.servers, "etcd", lambda *_: ["-c", WAITS])
    server = Etcd(tmp_path / "etcd")
    with pytest.raises(EtcdError), server:
        pass
    with pytest.raises(EtcdError, match="does not run"):
        _ = server.pid
