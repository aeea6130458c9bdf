"""Aggregated ClusterRoles."""

import asyncio
from typing import Any

import pytest
from controllers_world import TENANT, Shelf, World

from vcsync.controllers.clusterroleaggregation import aggregation_controller
from vcsync.controllers.clusterroleaggregation.aggregation_controller import (
    ALL,
    CLUSTER_ROLE_AGGREGATION,
    FAILED,
    aggregated,
)
from vcsync.controllers.framework.mirror import Key, placed
from vcsync.controllers.framework.plan import Emit
from vcsync.controllers.framework.worker import ReconcileContext
from vcsync.kube.cache import Change
from vcsync.kube.errors import ApiError, Conflict, Status
from vcsync.kube.resources import CLUSTER_ROLES, Resource
from vcsync.objects.budget import Budget
from vcsync.objects.envelope import encode, parse
from vcsync.objects.selectors import LabelSelector

PART = {"to-whole": "true"}


def rule(*resources: str) -> dict[str, Any]:
    return {"apiGroups": [""], "resources": list(resources), "verbs": ["get"]}


def role(name: str, *rules: Any, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "rules": list(rules)}


def whole(*selectors: dict[str, str]) -> dict[str, Any]:
    chosen = [{"matchLabels": each} for each in selectors]
    return {"metadata": {"name": "whole"}, "aggregationRule": {"clusterRoleSelectors": chosen}, "rules": None}


def rules(made: World) -> Any:
    return made.body(CLUSTER_ROLES, "whole")["rules"]


def world(*roles: dict[str, Any]) -> World:
    made = stored(*roles)
    asyncio.run(work(made))
    return made


def stored(*roles: dict[str, Any]) -> World:
    """A tenant whose aggregated roles are not computed yet."""
    made = World([])
    made.shelves[CLUSTER_ROLES] = Shelf()
    for each in roles:
        made.put(CLUSTER_ROLES, each)
    return made


class Server:
    """The tenant's API as the controller uses it."""

    def __init__(self, world: World, refused: str = "") -> None:
        self.world = world
        self.refused = refused
        self.written: list[str] = []

    async def patch(self, resource: Resource, name: str, patch: dict[str, Any]) -> None:
        if name == self.refused:
            raise Conflict(Status(409))
        assert patch["metadata"]["uid"] == self.world.body(resource, name)["metadata"]["uid"]
        self.written.append(name)
        self.world.change(resource, name, {"rules": patch["rules"]})


async def work(made: World, refused: str = "") -> list[str]:
    """Compute all aggregated roles once; return which were written."""
    server: Any = Server(made, refused)
    context = ReconcileContext(made.view(), server, made.events.append)
    await CLUSTER_ROLE_AGGREGATION.work(context, Key(TENANT, "", ALL))
    return list(server.written)


def test_it_has_the_rules_of_selected_roles_once_ordered_by_name() -> None:
    made = world(
        whole(PART),
        role("b", rule("pods"), rule("services"), labels=PART),
        role("a", rule("services"), labels=PART),
        role("c", rule("secrets")),
    )
    assert rules(made) == [rule("services"), rule("pods")]


def test_rules_follow_the_selected_roles() -> None:
    made = world(whole(PART), role("a", rule("pods"), labels=PART))
    made.change(CLUSTER_ROLES, "a", {"metadata": {"labels": None}})
    asyncio.run(work(made))
    assert rules(made) == []


def test_it_does_not_select_itself_and_others_keep_their_rules() -> None:
    made = world(whole({}), role("a", rule("pods")))
    assert rules(made) == [rule("pods")]
    assert made.body(CLUSTER_ROLES, "a")["rules"] == [rule("pods")]


def test_any_change_of_rules_and_labels_queues_the_aggregated_roles_once() -> None:
    made = world(whole(PART), role("a", rule("pods"), labels=PART), role("b", rule("pods")))
    [watch] = CLUSTER_ROLE_AGGREGATION.watches
    before = placed(parse(encode(made.body(CLUSTER_ROLES, "a"))), TENANT)
    without = placed(parse(encode(role("a", rule("pods")))), TENANT)
    for change in (Change(before, without), Change(None, before), Change(before, None)):
        assert list(watch.keys(change, made.view())) == [Key(TENANT, "", ALL)]
    assert list(watch.keys(Change(before, before), made.view())) == []


async def test_roles_that_have_their_rules_are_not_written_and_a_refusal_does_not_stop_the_others() -> None:
    made = stored()
    made.put(CLUSTER_ROLES, role("a", rule("pods"), labels=PART))
    for name in ("whole", "x", "y"):
        made.put(CLUSTER_ROLES, whole(PART) | {"metadata": {"name": name}})
    with pytest.raises(ApiError):
        await work(made, refused="x")
    assert rules(made) == [rule("pods")]
    assert await work(made) == ["x"]
    assert await work(made) == []


class CountedRule(dict[str, Any]):
    """A rule that counts how often it is compared with another one."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedRule.compared += 1
        return dict.__eq__(self, other)

    def __hash__(self) -> int:
        return id(self)


async def test_rules_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two roles of 27,000 rules would take 36 seconds."""
    bodies = {name: [CountedRule(rule(f"{name}-{number}")) for number in range(200)] for name in ("a", "b")}
    monkeypatch.setattr(aggregation_controller, "_rules", lambda each: bodies[each.name])
    roles = [placed(parse(encode(role(name, labels=PART))), TENANT) for name in bodies]
    found = await aggregated([LabelSelector()] * 3, roles, Budget("aggregation", 2 * 200 + 3 * 2))
    assert CountedRule.compared == 0
    assert found == [*bodies["a"], *bodies["b"]]


def test_rules_that_no_object_can_hold_are_reported_and_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aggregation_controller, "MAX_BYTES", 1000)
    large = [rule(f"thing-{number}") for number in range(40)]
    small = whole({"to-small": "true"}) | {"metadata": {"name": "z"}}
    both = {**PART, "to-small": "true"}
    made = world(whole(PART), role("a", *large, labels=PART), role("b", rule("pods"), labels=both), small)
    assert rules(made) is None
    assert made.body(CLUSTER_ROLES, "z")["rules"] == [rule("pods")]
    [event] = made.events
    assert (event.about.name, event.reason, event.type) == ("whole", FAILED, "Warning")
    assert event.message == (
        "the rules of the selected ClusterRoles have more than 1000 bytes: select fewer roles; "
        "the rules stay as they are"
    )


def test_roles_that_select_very_many_end_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregation_controller, "MAX_STEPS", 100)
    aggregating = [whole(*[{}] * 20) | {"metadata": {"name": f"whole-{number}"}} for number in range(30)]
    made = world(*aggregating)
    [event] = made.events
    assert isinstance(event, Emit)
    assert "takes more than 100 steps" in event.message


async def test_many_rules_let_other_tasks_run() -> None:
    made = stored()
    made.put(CLUSTER_ROLES, whole(PART))
    made.put(CLUSTER_ROLES, role("a", *(rule(f"thing-{number}") for number in range(5000)), labels=PART))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    assert await work(made) == ["whole"]
    other.cancel()
    assert turns >= 2
