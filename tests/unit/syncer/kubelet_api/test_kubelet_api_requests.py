"""Requests of a kube-apiserver to a kubelet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.syncer.kubelet_api.requests import KubeletRequest, Parameters, parse


@pytest.mark.parametrize(
    ("path", "query", "parsed"),
    [
        ("/containerLogs/shop/web/app", [], KubeletRequest("log", "shop", "web", "container=app")),
        ("/containerLogs/shop/web/app", [("follow", "true"), ("tailLines", "3"), ("token", "x")],
         KubeletRequest("log", "shop", "web", "container=app&follow=true&tailLines=3")),
        ("/exec/shop/web/app", [("command", "sh"), ("command", "-c"), ("input", "1"), ("tty", "1"), ("output", "0")],
         KubeletRequest("exec", "shop", "web", "container=app&stdin=true&tty=true&command=sh&command=-c")),
        ("/attach/shop/web/app", [("output", "1"), ("error", "1"), ("command", "sh")],
         KubeletRequest("attach", "shop", "web", "container=app&stdout=true&stderr=true")),
        ("/portForward/shop/web", [], KubeletRequest("portforward", "shop", "web", "")),
        ("/portForward/shop/web", [("port", "80,81"), ("port", "82")],
         KubeletRequest("portforward", "shop", "web", "ports=80&ports=81&ports=82")),
        ("/exec/shop/web%2Fother/a%26b", [], KubeletRequest("exec", "shop", "web/other", "container=a%26b")),
    ],
)  # fmt: skip
def test_paths_and_parameters_become_those_of_the_api(
    path: str, query: Parameters, parsed: KubeletRequest
) -> None:
    assert parse(path, query) == parsed


@pytest.mark.parametrize(
    "path",
    ["/", "/pods", "/runningpods/", "/metrics", "/stats/summary", "/logs/", "/configz", "/run/shop/web/app",
     "/exec/shop/web", "/exec/shop/web/uid/app", "/exec/shop/web/app/", "//exec/shop/web/app",
     "/portForward/shop/web/uid", "/containerLogs/shop/web", "/checkpoint/shop/web/app", "exec"],
)  # fmt: skip
def test_nothing_else_of_a_kubelet_is_served(path: str) -> None:
    assert parse(path, []) is None


@given(st.text(), st.lists(st.tuples(st.text(), st.text())))
def test_no_request_breaks_the_query(path: str, query: list[tuple[str, str]]) -> None:
    for first in ("", "/exec/a/b/", "/containerLogs/a/b/"):
        parsed = parse(first + path, query)
        assert parsed is None or not set(parsed.query) & set(" \r\n#?/")


@pytest.mark.parametrize("query", [[("port", ",".join(["80"] * 101))], [("port", "80")] * 101])
def test_the_number_of_ports_is_limited(query: Parameters) -> None:
    assert parse("/portForward/shop/web", query) is None
