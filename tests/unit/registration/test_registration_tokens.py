"""Tokens of ServiceAccounts: from Secrets that the cluster fills, all asked for at once, else requested."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from vcsync.objects.envelope import Envelope, encode, parse
from vcsync.registration import tokens

ACCOUNTS = ["vcsync-syncer", "vcsync-nsscheduler", "vcsync-podscheduler"]


class Cluster:
    """A client of a cluster that fills some Secrets."""

    name = "acme"

    def __init__(self, fills: frozenset[str]) -> None:
        self._fills = fills
        self.requested: list[str] = []

    async def get(self, _resource: object, name: str, namespace: str) -> Envelope:
        body: dict[str, Any] = {"metadata": {"name": name, "namespace": namespace}}
        if name in self._fills:
            body["data"] = {"token": base64.b64encode(f"lasting {name}".encode()).decode()}
        return parse(encode(body))

    async def create_raw(self, *_: object, name: str, **__: object) -> bytes:
        self.requested.append(name)
        return json.dumps({"status": {"token": f"a year {name}", "expirationTimestamp": "2027"}}).encode()


@pytest.fixture(autouse=True)
def applied(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Let nobody wait long; what is applied is written down."""
    written: list[list[str]] = []

    async def apply(_client: object, objects: list[Mapping[str, Any]]) -> None:
        written.append([each["metadata"]["name"] for each in objects])

    monkeypatch.setattr(tokens, "apply", apply)
    monkeypatch.setattr(tokens, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(tokens, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(tokens, "FILL_SECONDS", 0.02)
    return written


async def test_all_tokens_are_asked_for_at_once(applied: list[list[str]]) -> None:
    said: list[str] = []
    cluster = Cluster(frozenset(map(tokens.token_secret, ACCOUNTS)))
    found = await tokens.tokens_of(cluster, ACCOUNTS, "vcsync-system", again="again", note=said.append)  # type: ignore[arg-type]
    assert applied == [[tokens.token_secret(each) for each in ACCOUNTS]]
    assert found == {each: f"lasting {tokens.token_secret(each)}" for each in ACCOUNTS}
    assert not cluster.requested
    assert not said


async def test_where_nothing_fills_secrets_it_says_what_it_waits_for_once_and_requests(
    applied: list[list[str]],
) -> None:
    said: list[str] = []
    cluster = Cluster(frozenset({tokens.token_secret(ACCOUNTS[0])}))
    again = "vcsync tenant renew acme"
    found = await tokens.tokens_of(cluster, ACCOUNTS, "vcsync-system", again=again, note=said.append)  # type: ignore[arg-type]
    assert len(applied) == 1
    assert cluster.requested == ACCOUNTS[1:]
    assert found[ACCOUNTS[0]].startswith("lasting")
    assert found[ACCOUNTS[1]].startswith("a year")
    waits, expires = said
    assert "for acme to fill 2 token Secrets" in waits
    assert "acme fills no token Secrets" in expires
    assert "end 2027; run 'vcsync tenant renew acme' before" in expires
