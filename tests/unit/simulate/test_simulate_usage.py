"""Simulated usage of hollow Pods: a constant share of their requests."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.objects.envelope import Envelope, encode, parse
from vcsync.objects.quantity import milli
from vcsync.simulate.usage import LEAST, MOST, simulated_usage

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(name: str = "web", runtime: str = "hollow", **requests: str) -> Envelope:
    return of(
        name,
        [{"name": "nginx", "resources": {"requests": requests}}],
        [{"name": "nginx", "containerID": f"{runtime}://u/nginx", "state": {"running": {}}}],
    )


def of(name: str, containers: list[Any], statuses: list[Any]) -> Envelope:
    return parse(
        encode(
            {
                "metadata": {"name": name, "namespace": "acme-shop", "resourceVersion": "1"},
                "spec": {"containers": containers},
                "status": {"containerStatuses": statuses},
            }
        )
    )


def used(found: Envelope) -> dict[str, str]:
    metrics = simulated_usage(found, NOW)
    assert metrics is not None
    return cast("dict[str, str]", metrics["containers"][0]["usage"])


@given(name=st.text("abc", min_size=1), cpu=st.integers(100, 10_000), memory=st.integers(16, 4096))
def test_a_pod_uses_a_share_of_its_requests(name: str, cpu: int, memory: int) -> None:
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    first = used(pod(name, **requests))
    assert first == used(pod(name, **requests))
    for resource, asked in requests.items():
        assert LEAST - 0.01 <= milli(first[resource]) / milli(asked) <= MOST + 0.01


def test_a_pod_without_requests_uses_a_little() -> None:
    found = used(pod())
    assert 0 < milli(found["cpu"]) < 100
    assert 0 < milli(found["memory"]) < milli("64Mi")


def test_metrics_have_times_and_containers() -> None:
    metrics = simulated_usage(pod(), NOW)
    assert metrics is not None
    assert (metrics["timestamp"], metrics["window"]) == ("2026-01-01T00:00:00Z", "15s")
    assert [each["name"] for each in metrics["containers"]] == ["nginx"]


@pytest.mark.parametrize(
    "status",
    [
        {"containerID": "containerd://u", "state": {"running": {}}},
        {"containerID": "hollow://u", "state": {"waiting": {}}},
        {"containerID": "hollow://u", "state": {"terminated": {}}},
        {"state": {}},
    ],
)
def test_pods_that_do_not_run_or_are_real_have_no_metrics(status: dict[str, Any]) -> None:
    containers = [{"name": "app"}, {"name": "other"}]
    other = {"name": "other", "containerID": "hollow://u/other", "state": {"running": {}}}
    metrics = simulated_usage(of("web", containers, [{"name": "app", **status}, other]), NOW)
    assert metrics is not None
    assert [each["name"] for each in metrics["containers"]] == ["other"]
    assert simulated_usage(of("web", containers, [{"name": "app", **status}]), NOW) is None
