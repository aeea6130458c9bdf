"""The policy for lost super clusters as an option, and the copies that stand in the way of a fence's end."""

import json
from typing import Any

import pytest

from vcsync.api import names
from vcsync.api.specs import Failover
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.failover import parse_failover
from vcsync.cli.run.commands import tuning_of
from vcsync.cli.super.fence import copies_of, unwanted
from vcsync.cli.tenant.limits import failover_of, shown_failover
from vcsync.objects.envelope import Envelope, parse


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("Stay", Failover(policy="Stay")),
        ("MoveAfter", Failover(policy="MoveAfter")),
        ("MoveAfter=0s", Failover(policy="MoveAfter", after_seconds=0)),
        ("MoveStateless=1h30m", Failover(policy="MoveStateless", after_seconds=5400)),
    ],
)
def test_a_policy_is_parsed(text: str, policy: Failover) -> None:
    assert parse_failover(text) == policy


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("", "give Stay, MoveAfter=DURATION or MoveStateless=DURATION"),
        ("moveafter=5m", "give Stay, MoveAfter=DURATION or MoveStateless=DURATION"),
        ("Stay=5m", "Stay takes no duration: remove '=5m'"),
        ("MoveAfter=", "'' is not a duration"),
        ("MoveAfter=5", "'5' is not a duration"),
        ("MoveAfter=10ms", "give a duration of whole seconds"),
        ("MoveAfter=800h", "at most 720h"),
    ],
)
def test_an_invalid_policy_is_refused_with_the_remedy(text: str, remedy: str) -> None:
    with pytest.raises(WrongInputError) as caught:
        parse_failover(text)
    assert str(caught.value).startswith("--failover ")
    assert remedy in str(caught.value)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (None, {}),
        ("", {"failover": {}}),
        ("Stay", {"failover": {"policy": "Stay"}}),
        ("MoveAfter=5m", {"failover": {"policy": "MoveAfter", "afterSeconds": 300}}),
    ],
)
def test_an_option_that_was_not_used_changes_nothing(given: str | None, field: dict[str, Any]) -> None:
    assert failover_of(given) == field


@pytest.mark.parametrize("text", ["Stay", "MoveAfter", "MoveStateless=60s"])
def test_a_policy_is_shown_as_the_option_takes_it(text: str) -> None:
    assert shown_failover(parse_failover(text)) == text
    assert shown_failover(None) == ""


def test_the_roles_have_a_default_policy() -> None:
    assert tuning_of({"failover": "MoveAfter=1m"}).failover == Failover(policy="MoveAfter", after_seconds=60)
    assert tuning_of({}).failover == Failover(policy="Stay")


def copy(name: str, tenant: str = "acme", *, controlled: str = "true", uid: str = "") -> Envelope:
    metadata = {
        "name": name,
        "namespace": f"{tenant}-shop",
        "uid": f"copy-{name}",
        "labels": {names.CONTROLLED: controlled},
        "annotations": {names.CLUSTER: tenant, names.NAMESPACE: "shop", names.UID: uid or f"uid-{name}"},
    }
    return parse(json.dumps({"metadata": metadata}).encode())


def test_copies_whose_tenants_pods_are_gone_are_in_the_way() -> None:
    found = copies_of([copy("kept"), copy("gone"), copy("replaced", uid="old"), copy("left", "other")])
    wanted = {"acme": frozenset({"uid-kept", "uid-replaced"})}
    assert [each.pod.name for each in unwanted(found, wanted)] == ["gone", "replaced", "left"]


def test_pods_of_the_operator_are_no_copies() -> None:
    assert copies_of([copy("operators", controlled="false"), parse(b'{"metadata": {"name": "plain"}}')]) == []
