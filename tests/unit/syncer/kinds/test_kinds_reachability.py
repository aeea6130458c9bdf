"""The condition of a Service that says whether all its Pods are reached from every super cluster."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds_bench import CONTEXT, Bench

from vcsync.api import names
from vcsync.kube.resources import SERVICES
from vcsync.syncer.kinds.plan import Placement
from vcsync.syncer.kinds.reachability import groups_of

LAB = {"r1": "lab", "r2": "lab"}


def bench_of(super_id: str, networks: Mapping[str, str], *placed: str, lost: Iterable[str] = ()) -> Bench:
    context = msgspec.structs.replace(CONTEXT, super_id=super_id, networks=networks, lost=frozenset(lost))
    bench = Bench(context)
    bench.place()
    bench.placements["shop"] = Placement(dict.fromkeys(placed, 1), {}, {})
    return bench


def made(bench: Bench, **spec: Any) -> Bench:
    ports = [{"name": "http", "port": 80}]
    body = {"metadata": {"name": "web"}, "spec": {"ports": ports, "selector": {"app": "web"}, **spec}}
    bench.put("tenant", SERVICES, body)
    bench.settle("services", "shop", "web")
    return bench


def condition(bench: Bench) -> dict[str, Any]:
    found = bench.get("tenant", SERVICES, "web").get("status", {}).get("conditions") or []
    return next((each for each in found if each["type"] == names.REACHABLE_FROM_ALL), {})


@pytest.mark.parametrize(
    ("networks", "placed", "status", "apart"),
    [
        (LAB, ("r1", "r2"), "True", ""),
        ({}, ("r1", "r2"), "False", "(r1; r2)"),
        ({"r1": "lab"}, ("r1", "r2"), "False", "(r1; r2)"),
        ({"r1": "lab", "r2": "paris"}, ("r1", "r2"), "False", "(r1; r2)"),
        ({"r1": "lab", "r3": "lab"}, ("r1", "r2", "r3"), "False", "(r1, r3; r2)"),
        ({**LAB, "r3": "lab"}, ("r1", "r2", "r3"), "True", ""),
    ],
)
def test_the_condition_names_the_super_clusters_that_do_not_reach_each_other(
    networks: Mapping[str, str], placed: tuple[str, ...], status: str, apart: str
) -> None:
    found = condition(made(bench_of("r1", networks, *placed)))
    assert found["status"] == status
    assert found["reason"] == ("SameNetwork" if status == "True" else "SeparateNetworks")
    assert apart in found["message"]
    assert found["lastTransitionTime"]
    assert not set(networks.values()) & set(found["message"].replace(",", " ").split()), (
        "names of the operator"
    )


@pytest.mark.parametrize(
    "spec", [{"selector": None}, {"selector": {}}, {"type": "ExternalName", "externalName": "db.example.com"}]
)
def test_a_service_that_selects_no_pods_has_no_condition(spec: dict[str, Any]) -> None:
    assert condition(made(bench_of("r1", {}, "r1", "r2"), **spec)) == {}


def test_on_one_super_cluster_there_is_no_condition_and_a_former_one_is_removed() -> None:
    bench = made(bench_of("r1", {}, "r1", "r2"))
    assert condition(bench)["status"] == "False"
    bench.placements["shop"] = Placement({"r1": 1}, {}, {})
    bench.settle("services", "shop", "web")
    assert condition(bench) == {}


def test_only_the_first_super_cluster_writes_it() -> None:
    assert condition(made(bench_of("r2", {}, "r1", "r2"))) == {}


@pytest.mark.parametrize(
    ("lost", "writer", "message"),
    [
        (("r2",), "r1", "are lost: r2. Until they return, the Service reaches none of the Pods there"),
        (("r1",), "r2", "are lost: r1. "),
        (("r1", "r2"), "r3", "are lost: r1, r2. "),
        (("r3",), "r1", "are lost: r3. "),
    ],
)
def test_while_a_super_cluster_is_lost_the_first_of_the_others_says_so(
    lost: tuple[str, ...], writer: str, message: str
) -> None:
    networks = {**LAB, "r3": "lab"}
    for each in networks:
        found = condition(made(bench_of(each, networks, *networks, lost=lost)))
        assert bool(found) == (each == writer)
    found = condition(made(bench_of(writer, networks, *networks, lost=lost)))
    assert (found["status"], found["reason"]) == ("False", names.SUPER_CLUSTER_LOST)
    assert message in found["message"]
    assert ";" not in found["message"]


def test_a_super_cluster_that_returns_or_has_no_slices_of_the_namespace_counts_for_nothing() -> None:
    bench = made(bench_of("r1", LAB, "r1", "r2", lost=["r2"]))
    bench.context = msgspec.structs.replace(bench.context, lost=frozenset({"r9"}))
    bench.settle("services", "shop", "web")
    assert (condition(bench)["status"], condition(bench)["reason"]) == ("True", "SameNetwork")


def test_of_the_others_those_that_do_not_reach_each_other_are_named() -> None:
    found = condition(made(bench_of("r1", {}, "r1", "r2", "r3", lost=["r3"])))
    assert found["reason"] == names.SUPER_CLUSTER_LOST
    assert "; the others do not reach the Pods of each other (r1; r2)" in found["message"]


def test_nobody_writes_it_while_all_are_lost() -> None:
    bench = made(bench_of("r1", LAB, "r1", "r2", lost=LAB))
    assert condition(bench) == {}


def test_conditions_of_others_stay_and_the_time_changes_with_the_status_only() -> None:
    bench = made(bench_of("r1", {}, "r1", "r2"))
    theirs = {
        "type": "Theirs",
        "status": "True",
        "reason": "X",
        "message": "",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    ours = {**condition(bench), "lastTransitionTime": "2020-01-01T00:00:00Z", "message": "changed by hand"}
    bench.edit("tenant", SERVICES, "web", {"status": {"conditions": [theirs, ours]}})
    bench.settle("services", "shop", "web")
    assert condition(bench)["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert condition(bench)["message"] != "changed by hand"
    bench.context = msgspec.structs.replace(bench.context, networks=LAB)
    bench.settle("services", "shop", "web")
    assert condition(bench)["status"] == "True"
    assert condition(bench)["lastTransitionTime"] != "2020-01-01T00:00:00Z"
    assert theirs in bench.get("tenant", SERVICES, "web")["status"]["conditions"]


ids = st.sampled_from([f"r{number}" for number in range(6)])


@given(st.sets(ids), st.dictionaries(ids, st.sampled_from(["", "lab", "paris"])))
def test_each_super_cluster_is_in_one_group_with_those_of_its_network(
    placed: set[str], networks: dict[str, str]
) -> None:
    groups = groups_of(placed, networks)
    assert sorted(each for group in groups for each in group) == sorted(placed)
    for group in groups:
        assert len({networks.get(each, "") or each for each in group}) == 1
    named = [networks[group[0]] for group in groups if networks.get(group[0])]
    assert len(named) == len(set(named))
