"""A rebalance of the stored objects, and its text for people."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from vcsync.api.fields import Quantity
from vcsync.api.moves import MoveRequest, Wanted, request_annotation
from vcsync.api.objects import NamespacePlacement, SuperCluster, VirtualCluster
from vcsync.api.specs import (
    Condition,
    NamespacePlacementSpec,
    NamespacePlacementStatus,
    SecretRef,
    SuperClusterSpec,
    SuperClusterStatus,
    VirtualClusterRef,
    VirtualClusterSpec,
    VirtualClusterStatus,
)
from vcsync.cli.whatif.rendering import proposal_text
from vcsync.objects.times import time_text
from vcsync.scheduling.ledger import Entry
from vcsync.scheduling.rebalance import Move
from vcsync.tenancy.movable import movable, requests_of
from vcsync.whatif.rebalance import percent, propose

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TEXT = time_text(NOW)
SIZE = {"cpu": Quantity("2"), "memory": Quantity("4Gi")}
ROOT = "vcsync-0a1b2c-acme"


def super_cluster(super_id, **fields):
    true = tuple(
        Condition(type=each, status="True", reason="Works", message="", last_transition_time=TEXT)
        for each in ("Reachable", "Ready")
    )
    return SuperCluster(
        name=super_id,
        spec=SuperClusterSpec(id=super_id, kubeconfig_secret_ref=SecretRef(name="any"), **fields),
        status=SuperClusterStatus(
            allocatable={"cpu": Quantity("20"), "memory": Quantity("40Gi")},
            conditions=true,
            heartbeat_time=TEXT,
        ),
    )


def tenant(**fields):
    return VirtualCluster(
        name="acme",
        namespace="vcsync",
        uid="u",
        spec=VirtualClusterSpec(tenant="acme", **fields),
        status=VirtualClusterStatus(cluster_namespace=ROOT),
    )


def placement(name, *, away=None, annotations=None, pins=None, waiting=0, **placements):
    return NamespacePlacement(
        name=name,
        namespace=ROOT,
        annotations=annotations or {},
        spec=NamespacePlacementSpec(
            virtual_cluster=VirtualClusterRef(namespace="vcsync", name="acme", uid="u"),
            tenant=ROOT,
            namespace=name,
            namespace_uid="n",
            slice_size=SIZE,
            slices=sum(placements.values()) + waiting,
            pins=pins or {},
        ),
        status=NamespacePlacementStatus(placements=placements, away=away or {}, waiting=waiting),
    )


POOL = (super_cluster("r1"), super_cluster("r2"), super_cluster("r3"))
CROWD = (placement("shop", r1=2, r2=2), placement("web", r1=1, r2=1))


def proposed(*placements, supers=POOL, tenants=None, **fields):
    fields = {"policy": "spread", "budget": 20, **fields}
    return propose(supers, tenants or [tenant()], placements, now=NOW, **fields)


def test_a_new_super_cluster_gets_slices_and_people_see_the_score():
    found = proposed(*CROWD)
    assert proposal_text(found.proposal, "spread").splitlines() == [
        "2 slices of at most 20 move. The score goes from 78.8888% to 94.4444%.",
        "",
        "SCORE                        BEFORE    AFTER",
        "balance of use               80.0000%  100.0000%",
        "slices of a namespace apart  77.7777%  88.8889%",
        "mean                         78.8888%  94.4444%",
        "",
        "SUPER CLUSTER  SLICES",
        "r1             3 -> 2",
        "r2             3 -> 2",
        "r3             0 -> 2",
        "",
        "NAMESPACE  FROM  TO  SLICES",
        "acme/shop  r1    r3  1",
        "acme/web   r2    r3  1",
    ]


def test_a_pool_at_rest_says_so_with_its_score():
    found = proposed(placement("shop", r1=1, r2=1, r3=1))
    assert proposal_text(found.proposal, "spread") == (
        "Nothing moves: no move makes the score of 100.0000% better."
    )


@pytest.mark.parametrize(
    "fields", [{"fenced": True}, {"cordoned": True}, {"drain": True}, {"headroom": {"cpu": "100%"}}], ids=str
)
def test_super_clusters_that_take_no_slices_are_shown_and_get_none(fields):
    supers = (super_cluster("r1"), super_cluster("r2"), super_cluster("r3", **fields))
    found = proposed(placement("shop", r1=3, r2=1), supers=supers)
    assert [(move.source, move.target) for move in found.moves] == [("r1", "r2")]
    assert "r3 (takes no part)" in proposal_text(found.proposal, "spread")


def test_namespaces_of_suspended_tenants_and_of_tenants_that_are_gone_stay():
    assert not proposed(placement("shop", r1=4), tenants=[tenant(suspended=True)]).moves
    stray = replace(placement("shop", r1=4), namespace="vcsync-0a1b2c-gone")
    assert not proposed(stray).moves


def test_slices_go_back_if_the_tenants_policy_or_the_default_says_so():
    home = placement("shop", r1=1, r2=1, away={"r3": 1})
    even = placement("web", r3=1)
    assert not proposed(home, even).moves
    back = proposed(home, even, tenants=[tenant(fail_back="NextRebalance")])
    assert back.moves == proposed(home, even, fail_back="NextRebalance").moves
    assert not proposed(home, even, tenants=[tenant(fail_back="Never")], fail_back="NextRebalance").moves


ASKED = MoveRequest(at=TEXT, moves=(Wanted("r1", "r2", 1),))


@pytest.mark.parametrize(
    ("found", "stay"),
    [
        pytest.param(placement("shop", r1=2), {}, id="at rest"),
        pytest.param(placement("shop", r1=2, pins={"r1": 1}), {"r1": 1}, id="pinned"),
        pytest.param(placement("shop", r1=2, waiting=1), None, id="a slice waits"),
        pytest.param(placement("shop"), None, id="no slices"),
        pytest.param(replace(placement("shop", r1=2), deleting=True), None, id="being removed"),
        pytest.param(
            placement("shop", r1=2, annotations=request_annotation(ASKED)), None, id="asked to move"
        ),
        pytest.param(
            placement(
                "shop",
                r1=2,
                pins={"r1": 1},
                annotations=request_annotation(replace(ASKED, refused="claims", stay={"r1": 2, "r2": 1})),
            ),
            {"r1": 2, "r2": 1},
            id="refused because of claims",
        ),
        pytest.param(
            placement("shop", r1=2, annotations={"tenancy.x-k8s.io/moves": "?"}), {}, id="unreadable request"
        ),
    ],
)
def test_what_may_move_of_a_namespace(found, stay):
    assert movable(found) == stay


def test_a_namespace_that_is_being_cleared_or_resized_does_not_move():
    found = placement("shop", r1=2)
    clearing = replace(
        found,
        finalizers=("tenancy.x-k8s.io/drain-r2",),
        status=replace(found.status, clearing={"r2": SIZE}),
    )
    assert movable(clearing) is None
    resized = replace(found, status=replace(found.status, slice_size={"cpu": Quantity("1")}))
    assert movable(resized) is None


def test_requests_keep_the_order_of_the_moves():
    moves = [
        Move((ROOT, "web"), "r1", "r2", 1),
        Move((ROOT, "shop"), "r1", "r2", 2),
        Move((ROOT, "shop"), "r1", "r3", 1),
    ]
    entries = {(ROOT, "web"): Entry({}, {"r1": 1}), (ROOT, "shop"): Entry({}, {"r1": 5, "r3": 1})}
    assert requests_of(moves, entries, NOW) == {
        (ROOT, "web"): MoveRequest(at=TEXT, order=0, moves=(Wanted("r1", "r2", 1),), left={"r1": 0}),
        (ROOT, "shop"): MoveRequest(
            at=TEXT, order=1, moves=(Wanted("r1", "r2", 2), Wanted("r1", "r3", 1)), left={"r1": 2}
        ),
    }


@pytest.mark.parametrize(
    ("millionths", "text"),
    [(1_000_000, "100.0000"), (783_334, "78.3334"), (5, "0.0005"), (0, "0.0000"), (-250_000, "-25.0000")],
)
def test_shares_are_shown_exactly(millionths, text):
    assert percent(millionths) == text
