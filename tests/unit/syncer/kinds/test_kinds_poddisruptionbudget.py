"""PodDisruptionBudgets: the copy selects this tenant's Pods only, and forbids evictions unless a node is drained."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kinds_bench import CONTEXT, KEY, Bench, super_ns

from vcsync.api import names
from vcsync.kube.resources import POD_DISRUPTION_BUDGETS
from vcsync.objects.envelope import Envelope
from vcsync.syncer.kinds.disruption_floors import CLOSED
from vcsync.syncer.kinds.plan import Delete, Notify, Patch, Placement
from vcsync.syncer.kinds.poddisruptionbudget import convert

KIND = "poddisruptionbudgets"
WEB = {"matchLabels": {"app": "web"}}
OURS = {"matchLabels": {"app": "web", names.CLUSTER: KEY}}
SPEC: dict[str, Any] = {"minAvailable": 3, "selector": WEB}
R1 = names.DISRUPTIONS_PREFIX + "r1"
R2 = names.DISRUPTIONS_PREFIX + "r2"


@pytest.fixture
def shop(bench: Bench) -> Bench:
    placed(bench, "r1", "r2")
    return bench


def placed(bench: Bench, *supers: str) -> None:
    bench.placements["shop"] = Placement(dict.fromkeys(supers, 1), {}, {})


def put(bench: Bench, spec: dict[str, Any] = SPEC, **metadata: Any) -> None:
    bench.put("tenant", POD_DISRUPTION_BUDGETS, {"metadata": {"name": "web", **metadata}, "spec": spec})


def counted(bench: Bench, side: str, healthy: int, *, desired: int = 3, **status: Any) -> None:
    """The disruption controller of a side counts."""
    found = bench.get(side, POD_DISRUPTION_BUDGETS, "web")
    fields = {
        "observedGeneration": found["metadata"]["generation"],
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": max(0, healthy - desired),
        "expectedPods": healthy,
        **status,
    }
    bench.edit(side, POD_DISRUPTION_BUDGETS, "web", {"status": fields})


def below(bench: Bench) -> Any:
    return bench.get("super", POD_DISRUPTION_BUDGETS, "web")["spec"]


def claim(bench: Bench, super_id: str = "r1") -> Any:
    annotations = bench.get("tenant", POD_DISRUPTION_BUDGETS, "web")["metadata"].get("annotations") or {}
    text = annotations.get(names.DISRUPTIONS_PREFIX + super_id)
    return text and json.loads(text)


def claims_of(bench: Bench, **values: Any) -> None:
    annotations = {
        names.DISRUPTIONS_PREFIX + super_id: value if isinstance(value, str) else json.dumps(value)
        for super_id, value in values.items()
    }
    bench.edit("tenant", POD_DISRUPTION_BUDGETS, "web", {"metadata": {"annotations": annotations}})


def leaving(name: str = "web-1", *, ready: bool = True, phase: str = "Running", **fields: Any) -> Envelope:
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
    labels = fields.pop("labels", {"app": "web"})
    return Envelope(name, labels=labels, status=json.dumps(status).encode(), **fields)


def settle(bench: Bench) -> None:
    bench.settle(KIND, "shop", "web")


@pytest.mark.parametrize(
    ("selector", "copied"),
    [
        (WEB, OURS),
        ({}, {"matchLabels": {names.CLUSTER: KEY}}),
        ({"matchLabels": None}, {"matchLabels": {names.CLUSTER: KEY}}),
        (
            {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            {
                "matchExpressions": [{"key": "app", "operator": "Exists"}],
                "matchLabels": {names.CLUSTER: KEY},
            },
        ),
        (None, None),
    ],
    ids=["labels", "all Pods", "null labels", "expressions", "no Pods"],
)
def test_selectors_select_pods_of_the_same_tenant(selector: Any, copied: Any) -> None:
    converted = convert({"selector": selector, "maxUnavailable": "30%"}, CLOSED, CONTEXT)
    assert converted == {"minAvailable": CLOSED, **({"selector": copied} if copied is not None else {})}


@pytest.mark.parametrize(
    ("theirs", "minimum", "copied"),
    [
        (None, CLOSED, None),
        ("IfHealthyBudget", CLOSED, "IfHealthyBudget"),
        ("AlwaysAllow", CLOSED, "AlwaysAllow"),
        (None, 2, "AlwaysAllow"),
        ("IfHealthyBudget", 2, "AlwaysAllow"),
    ],
)
def test_pods_that_are_not_healthy_may_be_evicted_while_the_tenant_has_enough_others(
    theirs: str | None, minimum: int, copied: str | None
) -> None:
    spec = {"selector": WEB, **({"unhealthyPodEvictionPolicy": theirs} if theirs else {})}
    assert convert(spec, minimum, CONTEXT).get("unhealthyPodEvictionPolicy") == copied


def test_a_copy_forbids_every_eviction_and_follows_the_selector(shop: Bench) -> None:
    put(shop, labels={"team": "a"})
    settle(shop)
    assert below(shop) == {"minAvailable": CLOSED, "selector": OURS}
    assert shop.get("super", POD_DISRUPTION_BUDGETS, "web")["metadata"]["labels"]["team"] == "a"
    shop.edit("tenant", POD_DISRUPTION_BUDGETS, "web", {"spec": {"selector": {"matchLabels": {"app": "x"}}}})
    settle(shop)
    assert below(shop)["selector"]["matchLabels"] == {"app": "x", names.CLUSTER: KEY}
    shop.remove("tenant", POD_DISRUPTION_BUDGETS, "web")
    settle(shop)
    assert not shop.has("super", POD_DISRUPTION_BUDGETS, "web")


@pytest.mark.parametrize(
    "change", [{"minAvailable": 0}, {"minAvailable": None, "maxUnavailable": 1}, {"minAvailable": "10%"}]
)
def test_a_copy_that_somebody_changes_is_repaired(shop: Bench, change: dict[str, Any]) -> None:
    put(shop)
    settle(shop)
    shop.edit("super", POD_DISRUPTION_BUDGETS, "web", {"spec": change})
    settle(shop)
    assert below(shop) == {"minAvailable": CLOSED, "selector": OURS}


def test_a_drain_publishes_first_then_opens_then_closes_then_withdraws(shop: Bench) -> None:
    placed(shop, "r1")
    put(shop)
    settle(shop)
    counted(shop, "tenant", 4)
    counted(shop, "super", 4, desired=CLOSED)
    settle(shop)
    assert claim(shop) is None
    shop.leaving = [leaving()]
    plan = shop.plan(KIND, "shop", "web")
    [publish] = plan.actions
    assert isinstance(publish, Patch)
    assert (publish.side, publish.subresource) == ("tenant", "status")
    v = shop.get("tenant", POD_DISRUPTION_BUDGETS, "web")["metadata"]
    assert publish.patch["metadata"]["resourceVersion"] == v["resourceVersion"]
    assert plan.wait is not None
    shop.execute(publish)
    assert claim(shop) == {"floor": 3, "generation": 1, "draining": True}
    [opens] = shop.plan(KIND, "shop", "web").actions
    assert isinstance(opens, Patch)
    p = shop.get("super", POD_DISRUPTION_BUDGETS, "web")["metadata"]
    assert opens.patch["metadata"]["resourceVersion"] == p["resourceVersion"]
    shop.execute(opens)
    assert below(shop) == {"minAvailable": 3, "selector": OURS, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    shop.leaving = []
    [closes] = shop.plan(KIND, "shop", "web").actions
    shop.execute(closes)
    assert below(shop) == {"minAvailable": CLOSED, "selector": OURS}
    assert claim(shop) is not None
    settle(shop)
    assert claim(shop) is None


@pytest.mark.parametrize(
    "pod",
    [
        leaving(labels={"app": "db"}),
        leaving(phase="Succeeded"),
        leaving(phase="Failed"),
        leaving(deletion_timestamp="2026-05-01T12:00:00Z"),
    ],
    ids=["of another app", "succeeded", "failed", "ending"],
)
def test_pods_that_need_no_eviction_open_nothing(shop: Bench, pod: Envelope) -> None:
    put(shop)
    settle(shop)
    counted(shop, "tenant", 4)
    counted(shop, "super", 4, desired=CLOSED)
    shop.leaving = [pod]
    assert shop.plan(KIND, "shop", "web").actions == ()


@pytest.mark.parametrize(
    "status",
    [{}, {"observedGeneration": 0}, {"currentHealthy": "many"}, {"disruptedPods": []}],
    ids=["none", "of an older spec", "of a wrong type", "of another wrong type"],
)
def test_nothing_may_be_disrupted_while_the_tenants_status_is_unknown(
    shop: Bench, status: dict[str, Any]
) -> None:
    put(shop)
    settle(shop)
    if status:
        counted(shop, "tenant", 4, **status)
    counted(shop, "super", 4, desired=CLOSED)
    shop.leaving = [leaving()]
    plan = shop.plan(KIND, "shop", "web")
    assert plan.actions == ()
    assert plan.wait is not None
    assert "has not counted" in plan.wait.reason


def test_another_super_clusters_drain_makes_this_one_publish_what_it_keeps(shop: Bench) -> None:
    put(shop)
    settle(shop)
    counted(shop, "tenant", 4)
    claims_of(shop, r2={"floor": 2, "generation": 1, "draining": True})
    settle(shop)
    assert claim(shop) is None, "nobody has counted here"
    counted(shop, "super", 2, desired=CLOSED)
    settle(shop)
    assert claim(shop) == {"floor": 2, "generation": 1}
    counted(shop, "super", 1, desired=CLOSED)
    settle(shop)
    assert claim(shop) == {"floor": 1, "generation": 1}
    claims_of(shop, r2={"floor": 2, "generation": 1})
    settle(shop)
    assert claim(shop) is None


def test_a_count_for_an_earlier_spec_of_the_copy_is_not_published(shop: Bench) -> None:
    """It may still include Pods that were evicted under that spec."""
    put(shop)
    settle(shop)
    counted(shop, "tenant", 4)
    counted(shop, "super", 2, desired=CLOSED)
    claims_of(shop, r2={"floor": 2, "generation": 1, "draining": True})
    shop.edit("super", POD_DISRUPTION_BUDGETS, "web", {"spec": {"minAvailable": 1}})
    settle(shop)
    assert below(shop)["minAvailable"] == CLOSED
    assert claim(shop) is None
    counted(shop, "super", 1, desired=CLOSED)
    settle(shop)
    assert claim(shop) == {"floor": 1, "generation": 1}


def test_claims_that_do_not_count_are_removed(shop: Bench) -> None:
    put(shop)
    settle(shop)
    counted(shop, "tenant", 4)
    claims_of(
        shop,
        r1="[" * 5000,
        r2={"floor": 9, "generation": 7, "draining": True},
        r9={"floor": 9, "generation": 1, "draining": True},
    )
    settle(shop)
    assert (claim(shop), claim(shop, "r9")) == (None, None)
    assert claim(shop, "r2"), "r2 removes its own"


def test_claims_for_other_specs_and_of_former_super_clusters_do_not_count(shop: Bench) -> None:
    put(shop)
    settle(shop)
    counted(shop, "tenant", 4)
    counted(shop, "super", 2, desired=CLOSED)
    claims_of(shop, r2={"floor": 9, "generation": 7}, r9={"floor": 9, "generation": 1})
    shop.leaving = [leaving()]
    settle(shop)
    assert claim(shop)["floor"] == 2
    assert below(shop)["minAvailable"] == CLOSED


@pytest.mark.parametrize("key", ["kubernetes.io/os", names.CLUSTER, "disruptions.tenancy.x-k8s.io/r1"])
def test_a_selector_of_labels_that_copies_lack_is_reported_and_the_old_copy_goes(
    shop: Bench, key: str
) -> None:
    put(shop)
    settle(shop)
    shop.edit("tenant", POD_DISRUPTION_BUDGETS, "web", {"spec": {"selector": {"matchLabels": {key: "x"}}}})
    plan = shop.plan(KIND, "shop", "web")
    deletion, notice = plan.actions
    assert isinstance(deletion, Delete)
    assert isinstance(notice, Notify)
    assert notice.reason == "NotEnforced"
    assert key in notice.message
    shop.execute(deletion)
    [again] = shop.plan(KIND, "shop", "web").actions
    assert isinstance(again, Notify)


def test_a_foreign_budget_of_the_same_name_is_not_touched(shop: Bench) -> None:
    shop.put(
        "super",
        POD_DISRUPTION_BUDGETS,
        {"metadata": {"name": "web", "namespace": super_ns("shop")}, "spec": {"maxUnavailable": 0}},
    )
    put(shop)
    shop.leaving = [leaving()]
    [notice] = shop.plan(KIND, "shop", "web").actions
    assert isinstance(notice, Notify)


@pytest.mark.parametrize(
    "selector",
    [
        {"matchExpressions": [{"key": "app", "operator": "In"}]},
        {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]},
        {"matchLabels": {"app": 3}},
    ],
)
def test_a_selector_that_no_api_server_would_store_selects_nothing(
    shop: Bench, selector: dict[str, Any]
) -> None:
    put(shop, {"minAvailable": 1, "selector": selector})
    settle(shop)
    counted(shop, "tenant", 4)
    counted(shop, "super", 4, desired=CLOSED)
    shop.leaving = [leaving()]
    assert shop.plan(KIND, "shop", "web").actions == ()


def test_the_claims_are_not_copied_down(shop: Bench) -> None:
    put(shop, annotations={R2: "{}", "note": "x"})
    settle(shop)
    annotations = shop.get("super", POD_DISRUPTION_BUDGETS, "web")["metadata"]["annotations"]
    assert not {R1, R2, "note"} & set(annotations)
