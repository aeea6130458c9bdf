"""What a request may cost before anybody knows who sends it, in calls of functions instead of time."""

import base64
import itertools
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from vcsync.apimachinery.errors import StatusError, unauthorized
from vcsync.apiserver.audit import request_log
from vcsync.apiserver.authentication import tokens
from vcsync.apiserver.authentication.authenticator import bearer
from vcsync.apiserver.authentication.bootstrap_tokens import BootstrapTokens
from vcsync.apiserver.authentication.tokens import TokenError
from vcsync.apiserver.handlers.refusals import refusal
from vcsync.apiserver.request.host_names import HostNames
from vcsync.apiserver.request.request_info import parse_path, parse_query, request_info

FIELD = 16 * 1024
"""Bytes of the longest header."""
_unique = itertools.count()


def calls(work: Callable[[], object]) -> int:
    """Return how many functions a piece of work calls, those in C included."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        with suppress(StatusError, TokenError):
            work()
    finally:
        sys.setprofile(None)
    return count


def accept(text: str) -> Callable[[], object]:
    new = f"x{next(_unique)}/y,{text}"  # Results for short texts are cached.
    return lambda: refusal(unauthorized(), new, lambda *_: b"{}")


def path(text: str) -> Callable[[], object]:
    return lambda: request_info("GET", parse_path(f"/api/v1/{text}"), {})


def query(text: str) -> Callable[[], object]:
    new = f"x{next(_unique)}=y&{text}"
    return lambda: parse_query(new)


def selectors(text: str) -> Callable[[], object]:
    new = {"labelSelector": [f"{text},x{next(_unique)}"], "fieldSelector": [text]}
    return lambda: request_info("GET", "/api/v1/pods", new)


def host(text: str) -> Callable[[], object]:
    names = HostNames("tenants.example.com")
    return lambda: names.resolve(request_info("GET", "/api", {}), [text], "a.tenants.example.com")


def token(text: str) -> Callable[[], object]:
    header = base64.urlsafe_b64encode(json.dumps({"alg": "ES256", "kid": text}).encode()).decode()
    return lambda: (tokens.key_id(bearer(f"Bearer {text}")), tokens.key_id(f"{header}.{text}.x"))


def nested_token(text: str) -> Callable[[], object]:
    header = base64.urlsafe_b64encode(b"[" * len(text)).decode()
    return lambda: tokens.key_id(f"{header}.x.x")


def audit_id(text: str) -> Callable[[], object]:
    return lambda: request_log.audit_id({"Audit-Id": text})


PIECES = ["a", ",", ";", "=", "&", "%41", "%", "/", "../", ".", "a,", "a/b,", "a/b;q=0.1,", "a=b&", "a=b,", "!a,", "a in (",
          "(", "[", '"', " ", "a ", "\u00e9", "application/json;as=Table;v=v1;g=meta.k8s.io,"]  # fmt: skip


@pytest.mark.parametrize(
    ("work", "size", "most"),
    [
        (accept, FIELD, 10_000),
        (path, 8 * 1024, 1_000),
        (query, FIELD, 15_000),
        (selectors, FIELD, 3_000),
        (host, FIELD, 200),
        (token, FIELD // 4, 500),
        (nested_token, FIELD // 2, 15_000),
        (audit_id, FIELD, 200),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_long_texts_take_a_bounded_number_of_steps(
    work: Callable[[str], Callable[[], object]], size: int, most: int
) -> None:
    for piece in PIECES:
        longer, shorter = (calls(work(piece * (length // len(piece)))) for length in (size, size // 4))
        assert longer <= most, piece
        assert longer <= 5 * shorter + 50, piece


def test_queries_of_commands_have_a_bounded_number_of_arguments() -> None:
    exec_path = "/api/v1/namespaces/n/pods/p/exec"
    assert calls(lambda: parse_query("&".join(["command=%41"] * 1_999), exec_path)) < 60_000
    assert calls(lambda: parse_query("&" * 131_000, exec_path)) < 50


async def test_long_tokens_are_refused_unread() -> None:
    """Bootstrap tokens have a form, and JSON web tokens a length, that are looked at first."""
    with pytest.raises(TokenError, match="too large"):
        tokens.key_id("a." * FIELD)
    store: Any = SimpleNamespace(range=lambda *_, **__: pytest.fail("the store is read"))
    source = BootstrapTokens(store, tuple, lambda: 0.0)
    assert await source.identify("a" * FIELD) is None


def test_ids_of_audit_events_are_cut() -> None:
    assert len(request_log.audit_id({"Audit-Id": "a" * FIELD})) == 512
