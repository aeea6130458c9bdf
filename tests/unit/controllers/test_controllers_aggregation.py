"""Aggregated ClusterRoles."""

from typing import Any

from controllers_world import World

from vcsync.controllers.clusterroleaggregation.aggregation_plan import CLUSTER_ROLE_AGGREGATION
from vcsync.controllers.framework.mirror import placed
from vcsync.kube.cache import Change
from vcsync.kube.resources import CLUSTER_ROLES
from vcsync.objects.envelope import encode, parse

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
    made = World([CLUSTER_ROLE_AGGREGATION])
    for each in roles:
        made.put(CLUSTER_ROLES, each)
    made.settle()
    return made


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
    made.settle()
    assert rules(made) == []


def test_it_does_not_select_itself_and_others_keep_their_rules() -> None:
    made = world(whole({}), role("a", rule("pods")))
    assert rules(made) == [rule("pods")]
    assert made.body(CLUSTER_ROLES, "a")["rules"] == [rule("pods")]


def test_a_change_queues_roles_that_select_or_selected_it() -> None:
    made = world(whole(PART), role("a", rule("pods"), labels=PART), role("b", rule("pods")))
    [watch] = CLUSTER_ROLE_AGGREGATION.watches
    before = placed(parse(encode(made.body(CLUSTER_ROLES, "a"))), "acme")
    without = placed(parse(encode(role("a", rule("pods")))), "acme")
    names = [each.name for each in watch.keys(Change(before, without), made.view())]
    assert names == ["a", "whole"]
    assert list(watch.keys(Change(before, before), made.view())) == []
