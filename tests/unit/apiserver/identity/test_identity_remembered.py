"""Caches of verified credentials have a limit in bytes: a tenant chooses the texts in them."""

import tracemalloc

import msgspec

from tests.unit.apiserver.identity.conftest import Clock
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authentication.provider_claims import Identified
from vcsync.apiserver.authentication.remembered import MAX_REMEMBERED, answer_bytes, claims_bytes, user_bytes
from vcsync.apiserver.authentication.tokens import Claims, Reference
from vcsync.apiserver.authentication.webhook_tokens import ReviewedTokens

MIB = 2**20
MANY_GROUPS = [f"group-{number:03}-" + "\u20ac" * 240 for number in range(60)]


async def answer(_: bytes) -> bytes:
    user = {"username": "alice", "extra": {"tenancy.x-k8s.io/tenant": ["acme"]}, "groups": MANY_GROUPS}
    status = {"authenticated": True, "user": user}
    return msgspec.json.encode(
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}
    )


async def test_large_answers_of_the_webhook_do_not_fill_the_memory() -> None:
    source = ReviewedTokens(answer, {"acme"}.__contains__, Clock())
    tracemalloc.start()
    try:
        for number in range(1_000):
            assert await source.identify(f"token-{number}")
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert MAX_REMEMBERED // 2 < used < MAX_REMEMBERED + 2 * MIB


def test_the_size_of_a_user_counts_each_text() -> None:
    name, groups, extra = "n" * 1000, ("g" * 1000,) * 5, {"k" * 1000: ("v" * 1000,) * 3}
    plain = user_bytes(User(""))
    assert user_bytes(User(name)) - plain == 1000
    assert user_bytes(User("", "u" * 1000)) - plain == 1000
    assert user_bytes(User("", groups=groups)) - plain > 5 * 1000
    assert user_bytes(User("", extra=extra)) - plain > 4 * 1000


def test_the_size_of_claims_counts_each_text() -> None:
    long = "x" * 1000
    plain = claims_bytes(Claims("", Reference("", ""), None))
    assert plain < 2048
    other = Reference(long, long)
    assert claims_bytes(Claims(long, other, (long, long), long, other, other, other)) - plain > 12 * 1000


def test_the_size_of_an_answer_counts_the_audiences() -> None:
    plain = answer_bytes(Identified(User("alice"), "acme"))
    assert answer_bytes(Identified(User("alice"), "acme", ("a" * 1000,))) - plain > 1000
    assert answer_bytes(None) < plain
