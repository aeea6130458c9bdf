"""Simulated usage of hollow Pods: a constant share of their requests."""

from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound, ServerError, Status
from vcsync.objects.envelope import Envelope, encode, parse
from vcsync.objects.quantity import milli
from vcsync.simulate.usage import LEAST, MOST, Measured, pod_metrics

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATH = "/apis/metrics.k8s.io/v1beta1/namespaces/acme-shop/pods"


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
    metrics = pod_metrics(found, NOW)
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
    metrics = pod_metrics(pod(), NOW)
    assert metrics is not None
    assert metrics["metadata"]["name"] == "web"
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
    metrics = pod_metrics(of("web", containers, [{"name": "app", **status}, other]), NOW)
    assert metrics is not None
    assert [each["name"] for each in metrics["containers"]] == ["other"]
    assert pod_metrics(of("web", containers, [{"name": "app", **status}]), NOW) is None


# LogOptions of a cluster


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Responses of a cluster's API by path."""
    answers: dict[str, Any] = {}

    async def request(_self: Client, _method: str, path: str, **_: Any) -> bytes:
        found = answers.get(path, NotFound(Status(404)))
        if isinstance(found, Exception):
            raise found
        return encode(found)

    async def listed(_self: Client, _resource: object, namespace: str) -> list[Envelope]:
        return cast("list[Envelope]", answers.get(namespace, []))

    monkeypatch.setattr(Client, "request", request)
    monkeypatch.setattr(Client, "list", listed)
    return answers


def cluster() -> Measured:
    return Measured.__new__(Measured)


async def test_hollow_pods_have_metrics_without_a_metrics_server(api: dict[str, Any]) -> None:
    api["acme-shop"] = [pod("a"), pod("b", "containerd"), pod("c")]
    found = msgspec.json.decode(await cluster().request("GET", PATH))
    assert found["kind"] == "PodMetricsList"
    assert [each["metadata"]["name"] for each in found["items"]] == ["a", "c"]


async def test_a_metrics_server_has_precedence(api: dict[str, Any]) -> None:
    api["acme-shop"] = [pod("a")]
    api[PATH] = {"items": []}
    assert msgspec.json.decode(await cluster().request("GET", PATH)) == {"items": []}


async def test_answers_of_a_cluster_without_hollow_pods_are_unchanged(api: dict[str, Any]) -> None:
    api["acme-shop"] = [pod("a", "containerd")]
    with pytest.raises(NotFound):
        await cluster().request("GET", PATH)
    api[PATH] = ServerError(Status(503))
    with pytest.raises(ServerError):
        await cluster().request("GET", PATH)


@pytest.mark.parametrize("path", [f"{PATH}/web", "/api/v1/namespaces/acme-shop/pods/web", "/version"])
async def test_other_missing_paths_stay_missing(api: dict[str, Any], path: str) -> None:
    api["acme-shop"] = [pod("a")]
    with pytest.raises(NotFound):
        await cluster().request("GET", path)
