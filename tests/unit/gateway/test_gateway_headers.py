"""The headers that pass between clients and external API servers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from vcsync.apiserver.request.reply import headers_by_name
from vcsync.gateway.headers import (
    REQUEST,
    RESPONSE,
    body_length,
    request_headers,
    response_headers,
)

FORBIDDEN = (
    "Authorization", "Proxy-Authorization", "Cookie", "Cookie2", "Host", "Connection", "Keep-Alive", "Proxy-Connection",
    "Transfer-Encoding", "TE", "Trailer", "Upgrade", "HTTP2-Settings", "Content-Length", "Expect", "Forwarded", "Via",
    "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "X-Original-URL", "X-Rewrite-URL",
    "X-HTTP-Method-Override", "X-Remote-User", "X-Remote-Group", "X-Remote-Uid", "X-Remote-Extra-Scopes", "X-Remote-User ",
    "X_Remote_User", "Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-Scopes",
    "impersonate-USER", "Impersonate_User", "Audit-Id", "Front-Proxy-User", "X-Client-Cert", "Sec-WebSocket-Protocol",
)  # fmt: skip


@pytest.mark.parametrize("name", FORBIDDEN)
def test_credentials_framing_and_identity_never_pass(name: str) -> None:
    assert request_headers(CIMultiDict({name: "x", "Accept": "application/json"})) == [
        ("Accept", "application/json")
    ]
    assert response_headers([(name, "x"), ("ETag", "1")]) == [("ETag", "1")]


@pytest.mark.parametrize("name", ["Set-Cookie", "Location", "Server", "Strict-Transport-Security", "WWW-Authenticate",
                                  "Alt-Svc", "Access-Control-Allow-Origin", "Clear-Site-Data", "Refresh", "Link"])  # fmt: skip
def test_an_api_server_does_not_speak_for_the_door(name: str) -> None:
    assert response_headers([(name, "x")]) == []


def test_order_and_repetitions_stay() -> None:
    sent = CIMultiDict([("Accept", "a"), ("Cookie", "c"), ("accept", "b"), ("User-Agent", "kubectl")])
    assert request_headers(sent) == [("Accept", "a"), ("accept", "b"), ("User-Agent", "kubectl")]
    answered = [("Warning", '299 - "a"'), ("Set-Cookie", "c"), ("warning", '299 - "b"')]
    assert headers_by_name(response_headers(answered)) == {"Warning": '299 - "a", 299 - "b"'}


@given(
    st.lists(st.tuples(st.text(st.characters(codec="ascii"), max_size=20), st.text(max_size=5)), max_size=8)
)
def test_only_listed_headers_pass(pairs: list[tuple[str, str]]) -> None:
    assert {name.lower() for name, _ in request_headers(CIMultiDict(pairs))} <= REQUEST
    assert {name.lower() for name, _ in response_headers(pairs)} <= RESPONSE


@pytest.mark.parametrize(
    ("headers", "length"),
    [
        ({}, 0),
        ({"Content-Length": "0"}, 0),
        ({"content-length": "12"}, 12),
        ({"Transfer-Encoding": "chunked"}, None),
    ],
)
def test_the_length_of_a_body(headers: dict[str, str], length: int | None) -> None:
    assert body_length(CIMultiDict(headers)) == length
