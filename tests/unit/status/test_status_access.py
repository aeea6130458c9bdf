"""Who may read a status endpoint: the meta cluster decides, within bounds, and without it nobody may."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from vcsync.kube.client import Client
from vcsync.kube.errors import Timeout, Unreachable, api_error
from vcsync.kube.resources import TOKEN_REVIEWS, Resource
from vcsync.status import access as access_module
from vcsync.status.access import (
    MAX_TOKEN,
    NO_ANSWER,
    NOBODY,
    NOT_INSTALLED,
    REMEMBERED_SECONDS,
    TOO_MANY,
    UNKNOWN_AT_ONCE,
    Access,
    bearer,
)

HOST = "192.0.2.1"
USERS = {
    "t-operator": {"username": "olga", "groups": ["system:masters"]},
    "t-prometheus": {"username": "system:serviceaccount:monitoring:prometheus", "uid": "7", "extra": {"node": ["n"]}},
    "t-stranger": {"username": "sid"},
}  # fmt: skip
RIGHTS = {
    ("olga", "/status"), ("olga", "/timeline"), ("olga", "/metrics"),
    ("system:serviceaccount:monitoring:prometheus", "/metrics"),
}  # fmt: skip


class Meta:
    """A meta cluster.

    Attributes:
        asked: Specs of the reviews.
        error: What it raises.
        answer: What it sends instead of reviews.
        gate: Answers wait for it.
    """

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []
        self.error: Exception | None = None
        self.answer: bytes | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def create_raw(self, resource: Resource, body: Mapping[str, Any]) -> bytes:
        assert (body["apiVersion"], body["kind"]) == (resource.api_version, resource.kind)
        spec = body["spec"]
        self.asked.append(spec)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        if self.answer is not None:
            return self.answer
        if resource == TOKEN_REVIEWS:
            user = USERS.get(spec["token"])
            status: dict[str, Any] = (
                {"error": "invalid bearer token"} if user is None else {"authenticated": True, "user": user}
            )
        else:
            asked = spec["nonResourceAttributes"]
            assert asked["verb"] == "get"
            status = {"allowed": (spec["user"], asked["path"]) in RIGHTS}
        return msgspec.json.encode({**body, "status": status})


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def meta() -> Meta:
    return Meta()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def access(meta: Meta, clock: Clock) -> Access:
    return Access(cast("Client", meta), clock)


async def code(access: Access, token: str, path: str = "/status", source: str = HOST) -> int:
    return (await access.decide(f"Bearer {token}", path, source)).code


@pytest.mark.parametrize(
    ("token", "codes"),
    [
        ("t-operator", {"/status": 200, "/timeline": 200, "/metrics": 200}),
        ("t-prometheus", {"/status": 403, "/timeline": 403, "/metrics": 200}),
        ("t-stranger", {"/status": 403, "/timeline": 403, "/metrics": 403}),
        ("unknown", {"/status": 401, "/timeline": 401, "/metrics": 401}),
    ],
)
async def test_the_meta_cluster_decides_who_may_read_what(
    access: Access, token: str, codes: dict[str, int]
) -> None:
    assert {path: await code(access, token, path) for path in codes} == codes


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"), ("bearer  abc ", "abc"), ("BEARER a.b-c", "a.b-c"),
        ("", None), ("abc", None), ("Bearer", None), ("Bearer ", None), ("Basic YTpi", None), ("Bearer a b", None),
        ("Bearer \xe4", None), ("Bearer a\x00", None), (f"Bearer {'a' * (MAX_TOKEN + 1)}", None),
    ],
)  # fmt: skip
def test_a_token_is_read_as_by_kubernetes(header: str, token: str | None) -> None:
    assert bearer(header) == token


async def test_who_sends_no_token_is_refused_without_a_question(access: Access, meta: Meta) -> None:
    for header in ("", "Basic YTpi", f"Bearer {'a' * (MAX_TOKEN + 1)}"):
        assert await access.decide(header, "/status", HOST) == NOBODY
    assert meta.asked == []


async def test_the_whole_user_is_asked_about(access: Access, meta: Meta) -> None:
    await code(access, "t-prometheus", "/metrics")
    assert meta.asked == [
        {"token": "t-prometheus"},
        {
            "user": "system:serviceaccount:monitoring:prometheus",
            "uid": "7",
            "groups": [],
            "extra": {"node": ["n"]},
            "nonResourceAttributes": {"verb": "get", "path": "/metrics"},
        },
    ]


@pytest.mark.parametrize(("token", "questions"), [("t-operator", 2), ("t-stranger", 2), ("unknown", 1)])
async def test_a_decision_is_used_again_for_a_while(
    access: Access, meta: Meta, clock: Clock, token: str, questions: int
) -> None:
    first = await code(access, token)
    clock.now += REMEMBERED_SECONDS - 1
    assert await code(access, token) == first
    assert len(meta.asked) == questions
    clock.now += 1
    assert await code(access, token) == first
    assert len(meta.asked) == 2 * questions


async def test_a_right_that_is_taken_away_ends(
    access: Access, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await code(access, "t-operator") == 200
    monkeypatch.setitem(USERS, "t-operator", {"username": "olga-left"})
    clock.now += REMEMBERED_SECONDS
    assert await code(access, "t-operator") == 403


def malformed(meta: Meta) -> None:
    meta.answer = b'{"status": 7}'


def failing(error: Exception) -> Any:
    def fail(meta: Meta) -> None:
        meta.error = error

    return fail


REFUSED = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no tokenreviews with t-operator"}


@pytest.mark.parametrize(
    ("fault", "decision"),
    [
        (failing(Unreachable("connection refused")), NO_ANSWER),
        (failing(Timeout("no answer")), NO_ANSWER),
        (failing(api_error(500, b"")), NO_ANSWER),
        (failing(api_error(401, b"")), NO_ANSWER),
        (failing(api_error(403, msgspec.json.encode(REFUSED))), NOT_INSTALLED),
        (malformed, NO_ANSWER),
    ],
)
async def test_nobody_is_let_in_without_an_answer(
    access: Access, meta: Meta, fault: Any, decision: Any
) -> None:
    fault(meta)
    with capture_logs() as logs:
        for _ in range(3):
            assert await access.decide("Bearer t-operator", "/status", HOST) == decision
    assert decision.code == 503
    assert len(logs) == 1, "a lasting cause is told once"
    assert "t-operator" not in str(logs), "no token is logged, not even by the server's words"
    meta.error = meta.answer = None
    assert await code(access, "t-operator") == 200, "a failure is not remembered"


async def test_an_answer_that_does_not_come_is_a_refusal(
    access: Access, meta: Meta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_module, "REVIEW_SECONDS", 0.0)
    meta.gate.clear()
    assert await access.decide("Bearer t-operator", "/status", HOST) == NO_ANSWER


async def test_only_few_decisions_are_remembered(
    access: Access, meta: Meta, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_module, "MAX_REMEMBERED", 3)
    for number in range(8):
        assert await code(access, f"guess-{number}") == 401
    remembered = cast("dict[Any, Any]", vars(access)["_remembered"])
    assert len(remembered) == 3


async def test_an_address_with_many_unknown_tokens_is_limited_and_others_are_not(
    access: Access, meta: Meta, clock: Clock
) -> None:
    assert await code(access, "t-operator") == 200
    clock.now += REMEMBERED_SECONDS
    codes = [await code(access, f"guess-{number}") for number in range(UNKNOWN_AT_ONCE + 50)]
    assert codes == [401] * UNKNOWN_AT_ONCE + [429] * 50
    asked = len(meta.asked)
    assert await access.decide("Bearer guess-x", "/status", HOST) == TOO_MANY
    assert len(meta.asked) == asked, "the meta cluster hears nothing of it"
    assert await code(access, "t-operator", source="198.51.100.7") == 200
    assert await code(access, "t-operator") == 200, "who could read before still may, from the same address"
    clock.now += 1
    assert await code(access, "guess-x") == 401


async def test_only_few_questions_are_open_at_the_same_time(
    access: Access, meta: Meta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_module, "UNKNOWN_AT_ONCE", 10_000)
    access = Access(cast("Client", meta), Clock())
    meta.gate.clear()
    calls = [asyncio.create_task(code(access, f"guess-{number}")) for number in range(100)]
    await asyncio.sleep(0)
    other = asyncio.create_task(code(access, "t-operator", source="198.51.100.7"))
    await asyncio.sleep(0)
    assert len(meta.asked) == access_module.MAX_REVIEWS // 2 + 1, "an address leaves room for others"
    meta.gate.set()
    assert sorted(set(await asyncio.gather(*calls))) == [401, 429]
    assert await other == 200


async def test_a_refusal_names_the_role_to_bind_and_cuts_names(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(USERS, "t-long", {"username": "a\n\x1b" + "b" * 5000})
    for path, role in (("/metrics", "vcsync-metrics-reader"), ("/status", "vcsync-status-reader")):
        text = (await access.decide("Bearer t-long", path, HOST)).text
        assert f'cannot get path "{path}": bind ClusterRole {role} to it' in text
        assert text.isprintable()
        assert len(text) < 500


async def test_a_caller_that_hangs_up_frees_its_question(access: Access, meta: Meta) -> None:
    meta.gate.clear()
    for number in range(UNKNOWN_AT_ONCE):
        call = asyncio.create_task(code(access, f"guess-{number}"))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
    meta.gate.set()
    assert await code(access, "t-operator", source="198.51.100.7") == 200
