"""Headers that pass between clients and programs in Pods."""

import pytest
from multidict import CIMultiDict

from vcsync.apiserver.kubelets.proxied_headers import returned_headers, sent_headers

SECRET = (
    "Authorization", "Cookie", "Proxy-Authorization", "Impersonate-User", "Impersonate-Extra-a", "X-Remote-User",
    "X-Remote-Group", "X-Kubernetes-Test", "Audit-Id",
)  # fmt: skip
OF_CONNECTIONS = (
    "Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Expect",
)  # fmt: skip
OF_BROWSERS = (
    "Set-Cookie", "Strict-Transport-Security", "Clear-Site-Data", "Alt-Svc", "WWW-Authenticate",
    "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials",
)  # fmt: skip


@pytest.mark.parametrize("name", [*SECRET, *OF_CONNECTIONS, "X-Forwarded-For", "Accept-Encoding"])
def test_credentials_and_headers_of_a_connection_are_not_sent(name: str) -> None:
    for spelling in (name, name.lower(), name.upper()):
        assert sent_headers(CIMultiDict({spelling: "x", "X-Mine": "1"})) == [("X-Mine", "1")]


def test_headers_that_belong_to_the_connection_by_its_own_word_are_not_sent() -> None:
    assert sent_headers(CIMultiDict({"Connection": "close, X-Hop", "X-Hop": "1", "X-Mine": "1"})) == [
        ("X-Mine", "1")
    ]


@pytest.mark.parametrize(
    "name", ["Accept", "Content-Type", "Host", "Range", "Origin", "X-Forwarded-Proto", "X-Mine"]
)
def test_other_headers_are_sent(name: str) -> None:
    assert sent_headers(CIMultiDict({name: "x"})) == [(name, "x")]


@pytest.mark.parametrize(
    "name", [*OF_BROWSERS, *OF_CONNECTIONS[:-1], "Audit-Id", "X-Kubernetes-Pf-Flowschema-Uid"]
)
def test_headers_that_concern_all_tenants_are_not_returned(name: str) -> None:
    assert returned_headers([(name, "x"), ("ETag", "1")]) == [("ETag", "1")]


def test_other_headers_are_returned() -> None:
    pairs = [
        ("Location", "/x"),
        ("Cache-Control", "no-store"),
        ("Content-Disposition", "attachment"),
        ("X-Mine", "1"),
    ]
    assert returned_headers(pairs) == pairs
