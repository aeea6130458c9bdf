"""The simulated scheduler: affinity, anti-affinity and spread, by topology and namespace."""

from typing import Any

import pytest

from vcsync.objects.envelope import Envelope, encode, parse
from vcsync.simulate import neighbours
from vcsync.simulate.fitting import Nodes, needs_of
from vcsync.simulate.neighbours import PlacedPods, depends_on_other_pods

HOST, ZONE = "kubernetes.io/hostname", "zone"
NAMESPACES = {"shop": {"team": "red"}, "bank": {"team": "blue"}, "park": {}}
PLACES = {"a": "east", "b": "east", "c": "west"}


def node(name: str, **labels: str) -> Envelope:
    status = {
        "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "99"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return parse(encode({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}))


def pod(name: str, namespace: str = "shop", app: str = "", **spec: Any) -> Envelope:
    metadata = {"name": name, "namespace": namespace, "uid": name, "labels": {"app": app} if app else {}}
    return parse(encode({"metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}}))


def selecting(app: str) -> dict[str, Any]:
    return {"matchLabels": {"app": app}}


def term(app: str = "", key: str = HOST, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": selecting(app) if app else {}, **more}


def near(*terms: Any) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def apart(*terms: Any) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def spread(app: str, key: str = HOST, **more: Any) -> dict[str, Any]:
    constraint = {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selecting(app),
        **more,
    }
    return {"topologySpreadConstraints": [constraint]}


class Town:
    """Nodes a and b in the east, c in the west, d without a zone; Pods by their node."""

    def __init__(self, **standing: list[Envelope]) -> None:
        self.nodes = Nodes()
        for name, zone in PLACES.items():
            self.nodes.update_node(node(name, **{HOST: name, ZONE: zone}))
        self.nodes.update_node(node("d", **{HOST: "d"}))
        self.neighbours = PlacedPods(lambda namespace: NAMESPACES[namespace])
        for where, pods in standing.items():
            for each in pods:
                self.neighbours.add(each, where)

    def answers(self, newcomer: Envelope) -> dict[str, str]:
        """Return the reason why each node refuses a Pod."""
        refuses = self.neighbours.refusal(newcomer, needs_of(newcomer), self.nodes.by_name)
        return {name: refuses(each) if refuses else "" for name, each in self.nodes.by_name.items()}

    def takes(self, newcomer: Envelope) -> str:
        """Return the nodes that fit a Pod."""
        return "".join(sorted(name for name, reason in self.answers(newcomer).items() if not reason))


def test_a_pod_without_terms_fits_every_node() -> None:
    town = Town(a=[pod("web", app="web")])
    assert town.neighbours.refusal(pod("new"), needs_of(pod("new")), town.nodes.by_name) is None


@pytest.mark.parametrize(
    ("newcomer", "expected"),
    [
        (pod("new", **near(term("web"))), "a"),
        (pod("new", **near(term("web", ZONE))), "ab"),
        (pod("new", **near(term("web"), term("web", ZONE))), "a"),
        (pod("new", **near(term("db"))), ""),
        (pod("db", app="db", **near(term("db"))), "abcd"),  # the first of its kind
        (pod("db", app="db", **near(term("db", ZONE))), "abc"),
        (pod("new", "bank", **near(term("web"))), ""),
        (pod("new", "bank", **near(term("web", namespaces=["shop"]))), "a"),
        (
            pod("new", "bank", **near(term("web", namespaceSelector={"matchLabels": {"team": "red"}}))),
            "a",
        ),
        (pod("new", "bank", **near(term("web", namespaceSelector={}))), "a"),
        (pod("new", "bank", **near(term("web", namespaceSelector={"matchLabels": {"team": "x"}}))), ""),
        (pod("new", **apart(term("web"))), "bcd"),
        (pod("new", **apart(term("web", ZONE))), "cd"),
        (pod("new", **apart(term("web"), term("far", ZONE))), "bd"),
        (pod("new", **apart(term())), "bd"),
        (pod("new", "bank", **apart(term())), "abcd"),
    ],
)
def test_nodes_that_fit_a_pod(newcomer: Envelope, expected: str) -> None:
    assert Town(a=[pod("web", app="web")], c=[pod("far", app="far")]).takes(newcomer) == expected


def test_a_term_without_selector_selects_no_pods() -> None:
    town = Town(a=[pod("web", app="web")])
    anything = {"topologyKey": HOST}
    assert town.takes(pod("new", **apart(anything))) == "abcd"
    assert town.takes(pod("new", **near(anything))) == ""


def test_all_terms_must_be_met_by_the_same_pods() -> None:
    town = Town(a=[pod("web", app="web")], b=[pod("db", app="db")])
    assert town.takes(pod("new", **near(term("web", ZONE), term("db", ZONE)))) == ""


def test_anti_affinity_of_existing_pods_applies() -> None:
    hermit = pod("hermit", **apart(term("web", ZONE)))
    town = Town(a=[hermit])
    answers = town.answers(pod("new", app="web"))
    assert answers == {"a": neighbours.REPELLED, "b": neighbours.REPELLED, "c": "", "d": ""}
    assert town.takes(pod("new", app="db")) == "abcd"
    assert town.takes(pod("new", "bank", app="web")) == "abcd"
    town.neighbours.remove(hermit)
    assert town.takes(pod("new", app="web")) == "abcd"


def test_changed_labels_apply() -> None:
    town = Town(a=[pod("web", app="web")])
    town.neighbours.add(pod("web", app="db"), "a")
    assert town.takes(pod("new", **apart(term("web")))) == "abcd"
    assert town.takes(pod("new", **apart(term("db")))) == "bcd"


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        (spread("web"), "bcd"),
        (spread("web", maxSkew=2), "abcd"),
        (spread("web", ZONE), "c"),  # a node without the label is no place at all
        (spread("web", ZONE, minDomains=3), "c"),
        (spread("web", ZONE, maxSkew=2, minDomains=3), "abc"),
        (spread("web", whenUnsatisfiable="ScheduleAnyway"), "abcd"),
        (spread("db"), "abcd"),
    ],
)
def test_pods_are_spread(constraint: dict[str, Any], expected: str) -> None:
    town = Town(a=[pod("one", app="web"), pod("elsewhere", "bank", app="web")])
    assert town.takes(pod("new", app="web", **constraint)) == expected


def test_nodes_that_a_pod_does_not_select_do_not_count_for_its_spread() -> None:
    town = Town(a=[pod("one", app="web")], b=[pod("two", app="web")])
    east: dict[str, Any] = {"nodeSelector": {ZONE: "east"}}
    assert town.takes(pod("new", app="web", **spread("web"), **east)) == "abcd"
    assert town.takes(pod("new", app="web", **spread("web", nodeAffinityPolicy="Ignore"), **east)) == "cd"


def test_reasons_are_those_of_kube_scheduler() -> None:
    town = Town(a=[pod("web", app="web")])
    assert town.answers(pod("new", **near(term("db"))))["a"] == "node(s) didn't match pod affinity rules"
    assert (
        town.answers(pod("new", **apart(term("web"))))["a"] == "node(s) didn't match pod anti-affinity rules"
    )
    answers = town.answers(pod("new", app="web", **spread("web", ZONE)))
    assert answers["a"] == "node(s) didn't match pod topology spread constraints"
    assert answers["d"] == "node(s) didn't match pod topology spread constraints (missing required label)"


def test_only_pods_with_affinity_or_spread_depend_on_other_pods() -> None:
    assert depends_on_other_pods(pod("new", **near(term("db"))))
    assert depends_on_other_pods(pod("new", **spread("db")))
    assert not depends_on_other_pods(pod("new", **apart(term("db"))))
    assert not depends_on_other_pods(pod("new"))
