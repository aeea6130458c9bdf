"""Requests of the resource metrics API, and the answers to them."""

from typing import Any

import msgspec
import pytest

from vcsync.resourcemetrics.documents import ContainerUsage, Described, Usage
from vcsync.syncer.metrics_api import answers
from vcsync.syncer.metrics_api.answers import PATH, PodReport, Unserved, answer, parse

NOW = "2026-01-01T00:00:00Z"
NODES = [Described("n.r2", "", {"zone": "b"}), Described("n.r1", "", {"zone": "a"})]


def report(namespace: str, name: str, node: str, cpu: str) -> PodReport:
    usage = Usage(NOW, "15s", (ContainerUsage("c", {"cpu": cpu}),))
    return PodReport(Described(name, namespace, {"app": name}), node, usage)


PODS = [
    report("shop", "web", "n.r1", "5m"),
    report("shop", "db", "n.r2", "6m"),
    report("blog", "web", "n.r1", "7m"),
]


def asked(path: str, **query: str) -> Any:
    found = answer(parse("GET", f"{PATH}{path}", query), PODS, NODES, NOW)
    return found.status, msgspec.json.decode(found.body)


def names(path: str, **query: str) -> list[str]:
    status, body = asked(path, **query)
    assert status == 200
    return [
        "/".join(filter(None, (each["metadata"].get("namespace"), each["metadata"]["name"])))
        for each in body["items"]
    ]


@pytest.mark.parametrize(
    ("path", "query", "found"),
    [
        ("/pods", {}, ["blog/web", "shop/db", "shop/web"]),
        ("/namespaces/shop/pods", {}, ["shop/db", "shop/web"]),
        ("/namespaces/none/pods", {}, []),
        ("/pods", {"labelSelector": "app=web"}, ["blog/web", "shop/web"]),
        ("/pods", {"labelSelector": "app!=web"}, ["shop/db"]),
        ("/pods", {"fieldSelector": "metadata.name=db"}, ["shop/db"]),
        ("/pods", {"fieldSelector": "metadata.namespace!=shop,metadata.name==web"}, ["blog/web"]),
        ("/nodes", {}, ["n.r1", "n.r2"]),
        ("/nodes", {"labelSelector": "zone in (b)"}, ["n.r2"]),
        ("/pods", {"watch": "false"}, ["blog/web", "shop/db", "shop/web"]),
    ],
)  # fmt: skip
def test_lists(path: str, query: dict[str, str], found: list[str]) -> None:
    assert names(path, **query) == found


def test_one_pod_and_one_node() -> None:
    status, pod = asked("/namespaces/shop/pods/web")
    assert (status, pod["kind"], pod["metadata"]["labels"]) == (200, "PodMetrics", {"app": "web"})
    status, node = asked("/nodes/n.r1")
    assert (status, node["kind"], node["usage"]["cpu"]) == (200, "NodeMetrics", "12m")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/namespaces/shop/pods/none", 'pods.metrics.k8s.io "shop/none" not found'),
        ("/nodes/none", 'nodes.metrics.k8s.io "none" not found'),
    ],
)
def test_what_is_not_known_is_not_found(path: str, message: str) -> None:
    status, body = asked(path)
    assert (status, body["reason"], body["message"]) == (404, "NotFound", message)


def test_the_resources_are_listed() -> None:
    status, body = asked("")
    assert (status, [each["name"] for each in body["resources"]]) == (200, ["nodes", "pods"])


@pytest.mark.parametrize(
    ("method", "path", "query", "status"),
    [
        ("POST", "/pods", {}, 405),
        ("GET", "/pods", {"watch": "true"}, 405),
        ("GET", "/services", {}, 404),
        ("GET", "/namespaces/shop/nodes", {}, 404),
        ("GET", "/namespaces/shop/pods/web/log", {}, 404),
        ("GET", "x/pods", {}, 404),
        ("GET", "/pods", {"labelSelector": "=="}, 400),
        ("GET", "/pods", {"fieldSelector": "spec.nodeName=x"}, 400),
        ("GET", "/pods", {"fieldSelector": "metadata.name"}, 400),
    ],
)  # fmt: skip
def test_other_requests_are_refused(method: str, path: str, query: dict[str, str], status: int) -> None:
    with pytest.raises(Unserved) as caught:
        parse(method, f"{PATH}{path}", query)
    assert caught.value.answer.status == status
    assert msgspec.json.decode(caught.value.answer.body)["kind"] == "Status"


@pytest.mark.parametrize("parameter", ["labelSelector", "fieldSelector"])
@pytest.mark.parametrize("text", ["," * 16_385, "a in (" + "b," * 100_000 + "b)"])
def test_long_selectors_are_refused_unread(
    parameter: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Splitting them could take steps as the square of their length."""
    if parameter == "labelSelector":
        monkeypatch.setattr(answers, "parse_selector", lambda _: pytest.fail("parsed"))
    with pytest.raises(Unserved) as caught:
        parse("GET", f"{PATH}/pods", {parameter: text})
    assert caught.value.answer.status == 400
    assert f"{parameter}: longer than 16384 characters".encode() in caught.value.answer.body


@pytest.mark.parametrize(
    ("parameter", "term"), [("labelSelector", "!a{}"), ("fieldSelector", "metadata.name!=a{}")]
)
def test_the_number_of_requirements_is_limited(parameter: str, term: str) -> None:
    few = ",".join(term.format(at) for at in range(100))
    assert len(names("/pods", **{parameter: few})) == 3
    with pytest.raises(Unserved) as caught:
        parse("GET", f"{PATH}/pods", {parameter: f"{few},{term.format(100)}"})
    assert b"more than 100 requirements" in caught.value.answer.body
