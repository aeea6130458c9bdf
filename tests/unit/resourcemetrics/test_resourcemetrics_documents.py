"""PodMetrics and NodeMetrics."""

import msgspec
import pytest

from vcsync.resourcemetrics.documents import (
    ContainerUsage,
    Described,
    Usage,
    many,
    node_metrics,
    one,
    pod_metrics,
    usages,
)

NOW = "2026-01-01T00:00:00Z"


def measured(timestamp: str = NOW, window: str = "15s", **usage: str) -> Usage:
    return Usage(timestamp, window, (ContainerUsage("c", usage),))


def test_only_known_fields_and_quantities_of_an_answer_are_kept() -> None:
    answer = {
        "kind": "PodMetricsList",
        "metadata": {"selfLink": "https://10.0.0.5"},
        "items": [
            {
                "metadata": {"name": "web", "namespace": "acme-shop", "labels": {"node": "node-7"}},
                "timestamp": NOW,
                "window": "15.2s",
                "containers": [
                    {"name": "c", "usage": {"cpu": "12n", "memory": "x", "pods": "1"}},
                    {"name": "d", "usage": {"cpu": "-1"}},
                ],
            }
        ],
    }
    found = usages(msgspec.json.encode(answer))
    containers = (ContainerUsage("c", {"cpu": "12n"}), ContainerUsage("d", {}))
    assert found == {"web": Usage(NOW, "15.2s", containers)}
    assert usages(b"{}") == {}


@pytest.mark.parametrize("answer", [b"", b"[]", b'{"items":[{}]}', b'{"items":[{"metadata":5}]}'])
def test_other_answers_are_refused(answer: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        usages(answer)


def test_metrics_of_a_pod_have_the_tenants_names_and_labels() -> None:
    pod = Described("web", "shop", {"app": "web"})
    found = msgspec.json.decode(one("PodMetrics", pod_metrics(pod, measured(cpu="5m"), NOW)))
    assert found == {
        "kind": "PodMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "creationTimestamp": NOW,
            "labels": {"app": "web"},
        },
        "timestamp": NOW,
        "window": "15s",
        "containers": [{"name": "c", "usage": {"cpu": "5m"}}],
    }


@pytest.mark.parametrize(
    ("pods", "usage"),
    [
        ([], {"cpu": "0", "memory": "0"}),
        ([{"cpu": "1500000n", "memory": "2Ki"}, {"cpu": "1n"}], {"cpu": "1500001n", "memory": "2Ki"}),
        ([{"cpu": "250m", "memory": "1"}, {"cpu": "500m", "memory": "1Ki"}], {"cpu": "750m", "memory": "1025"}),
        ([{"cpu": "1"}, {"cpu": "1"}], {"cpu": "2", "memory": "0"}),
    ],
)  # fmt: skip
def test_the_usage_of_a_node_is_that_of_its_pods(pods: list[dict[str, str]], usage: dict[str, str]) -> None:
    found = node_metrics(Described("n.r1"), [measured(**each) for each in pods], NOW)
    assert found["usage"] == usage
    assert found["metadata"] == {"name": "n.r1", "creationTimestamp": NOW}


def test_the_interval_of_a_node_is_that_of_the_pod_measured_first() -> None:
    pods = [measured("2026-01-01T00:00:09Z"), measured("2026-01-01T00:00:03Z", "20s")]
    found = node_metrics(Described("n.r1"), pods, NOW)
    assert (found["timestamp"], found["window"]) == ("2026-01-01T00:00:03Z", "20s")


def test_a_list_without_items_is_a_list() -> None:
    found = msgspec.json.decode(many("NodeMetrics", []))
    assert (found["kind"], found["items"]) == ("NodeMetricsList", [])
