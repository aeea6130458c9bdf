"""Bootstrap tokens are deleted when they expire; other Secrets are kept."""

import base64
from typing import Any

import pytest
from controllers_world import World

from vcsync.controllers.serviceaccount.bootstrap_token_plan import BOOTSTRAP_TOKENS, TOKEN_CLEANER, TYPE

NAME = "bootstrap-token-abcdef"


def world(expiration: str | None, *, type_: str = TYPE, namespace: str = "kube-system") -> World:
    made = World([TOKEN_CLEANER])
    data = {} if expiration is None else {"expiration": base64.b64encode(expiration.encode()).decode()}
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": NAME},
        "type": type_,
        "data": data,
    }
    made.put(BOOTSTRAP_TOKENS, body, namespace)
    return made


def test_an_expired_token_is_deleted() -> None:
    made = world("2026-01-01T01:00:00Z")
    plan = made.work(TOKEN_CLEANER.name, made.key("kube-system", NAME))
    assert plan.again == 3600
    assert made.bodies(BOOTSTRAP_TOKENS)
    made.pass_time(3600)
    made.settle()
    assert made.bodies(BOOTSTRAP_TOKENS) == []


@pytest.mark.parametrize("expiration", ["2025-12-31T23:59:59Z", "2026-01-01T02:00:00+03:00", "soon", "1"])
def test_a_token_with_a_past_or_invalid_expiration_is_deleted(expiration: str) -> None:
    made = world(expiration)
    made.settle()
    assert made.bodies(BOOTSTRAP_TOKENS) == []


@pytest.mark.parametrize(
    ("expiration", "given"),
    [
        (None, {}),
        ("", {}),
        ("2025-01-01T00:00:00Z", {"type_": "Opaque"}),
        ("2025-01-01T00:00:00Z", {"namespace": "default"}),
    ],
)
def test_other_secrets_are_kept(expiration: str | None, given: dict[str, str]) -> None:
    made = world(expiration, **given)
    made.settle()
    assert len(made.bodies(BOOTSTRAP_TOKENS)) == 1
