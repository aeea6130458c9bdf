"""Pods with ResourceClaims go where the classes of their claims are published, and follow claims that are allocated."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from vcsync.api.names import SUPER_CLUSTER
from vcsync.api.refusals import CLAIMS
from vcsync.api.specs import PublishedDeviceClass
from vcsync.objects.envelope import Envelope, parse
from vcsync.podscheduler.accounting import Assign, Await, PodAccounting, Withdraw
from vcsync.podscheduler.device_claims import DeviceClaims, device_claim_assignment, slim_device_claim
from vcsync.podscheduler.pods import Pod
from vcsync.podscheduler.revisits import Reason
from vcsync.scheduling.pods import TO_BE_MADE, PodNeeds, pod_needs
from vcsync.scheduling.snapshot import Health, SuperView

NS = "shop"
GPU, LARGE = (PublishedDeviceClass(name=each) for each in ("gpu", "large"))


def view(super_id: str, *classes: PublishedDeviceClass, health: Health = Health.READY) -> SuperView:
    return SuperView(super_id, health, {}, device_classes=classes)


class World:
    """A tenant's claims and Pods in memory. r1 and r2 publish `gpu`, r2 also `large`."""

    def __init__(self) -> None:
        self.claims: dict[str, Envelope] = {}
        self.unread = ""
        self.holders = {"r1", "r2"}
        self.views = {"r1": view("r1", GPU), "r2": view("r2", GPU, LARGE)}
        self.book = DeviceClaims(
            lambda _, name: self.claims.get(name),
            lambda: self.unread,
            lambda _, super_id: super_id in self.holders,
        )
        self.accounting = PodAccounting(devices=self.book)
        self.accounting.grant(NS, {"cpu": 1000}, {"r1": 2, "r2": 2})

    def claim(
        self, name: str, *classes: str, label: str = "", allocated: bool = False, **metadata: Any
    ) -> Envelope:
        requests = [{"exactly": {"deviceClassName": each}} for each in classes[:1] or ("gpu",)]
        choices = [{"deviceClassName": each} for each in classes[1:]]
        body = {
            "metadata": {
                "name": name,
                "namespace": NS,
                "uid": f"uid-{name}",
                "resourceVersion": "7",
                "labels": {SUPER_CLUSTER: label, "app": "x"} if label else {},
                **metadata,
            },
            "spec": {"devices": {"requests": [*requests, {"firstAvailable": choices}]}},
            "status": {"allocation": {}} if allocated else {},
        }
        self.claims[name] = slim_device_claim(parse(json.dumps(body).encode()))
        return self.claims[name]

    def pod(self, *claims: str, name: str = "p", label: str = "") -> Pod:
        needs = PodNeeds({"cpu": 500}, devices=claims)
        made = Pod(NS, name, f"uid-{name}", "1", needs, label, label, deleting=False, waiting_message="")
        self.accounting.update(made)
        return made

    def decided(self, pod: Pod) -> str:
        verdict = self.accounting.decide(pod, self.views)
        assert verdict is not None
        if isinstance(verdict, Await):
            return verdict.reason
        if isinstance(verdict, Assign | Withdraw) and verdict.super_id:
            return verdict.super_id
        return verdict.decision.reasons()


@pytest.fixture
def world() -> World:
    return World()


def test_a_pod_goes_where_each_class_of_its_claims_is_published(world: World) -> None:
    world.claim("a")
    assert world.decided(world.pod("a")) == "r1"
    world.claim("b", "gpu", "large")
    assert world.decided(world.pod("a", "b", name="q")) == "r2"
    world.claim("c", "private")
    message = world.decided(world.pod("c", name="s"))
    assert message == "; ".join(
        f"{each}: does not publish DeviceClass private of claim c" for each in ("r1", "r2")
    )


def test_pods_of_one_claim_go_to_one_super_cluster(world: World) -> None:
    claim = world.claim("a")
    assert world.book.unassigned(NS, ["a"], "r2") == [claim]
    world.book.assume([claim], "r2")
    assert world.decided(world.pod("a")) == "r2"
    world.book.settle([claim])
    assert world.decided(world.pod("a")) == "r1"
    world.claim("a", label="r2")
    assert world.decided(world.pod("a", name="q")) == "r2"
    assert list(world.accounting.concerned(Reason(claimants=True))) == [(NS, "p"), (NS, "q")]


def test_a_decision_counts_until_it_is_written_for_all_pods(world: World) -> None:
    claim = world.claim("a")
    for _ in range(2):
        world.book.assume([claim], "r2")
    world.book.settle([claim])
    assert world.decided(world.pod("a")) == "r2"
    world.book.settle([claim])
    assert world.decided(world.pod("a", name="q")) == "r1"


def test_claims_on_different_super_clusters_exclude_one_another(world: World) -> None:
    world.claim("a", label="r1"), world.claim("b", label="r2")
    assert world.decided(world.pod("a", "b")) == (
        "r1: claim b is on super cluster r2; r2: claim a is on super cluster r1"
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda world: world.views.update(r1=view("r1")),
        lambda world: world.views.update(r1=view("r1", GPU, health=Health.LOST)),
        lambda world: world.views.pop("r1"),
        lambda world: world.holders.discard("r1"),
    ],
    ids=["class withdrawn", "lost", "not registered", "nothing of the namespace there"],
)
def test_a_claim_without_allocation_leaves_a_super_cluster_that_cannot_serve_it(
    world: World, change: Any
) -> None:
    world.claim("a", label="r1")
    change(world)
    assert world.decided(world.pod("a")) in world.views.keys() - ({"r1"} & world.holders)


def test_a_pod_leaves_a_super_cluster_that_withdraws_its_class_once_it_was_given_back(world: World) -> None:
    world.claim("a", label="r1")
    world.views["r1"] = view("r1")
    verdict = world.accounting.decide(world.pod("a", label="r1"), world.views)
    assert isinstance(verdict, Withdraw)
    assert (verdict.super_id, verdict.reason) == ("r2", CLAIMS)


def test_a_claim_stays_on_a_lost_super_cluster_that_may_run_a_pod_with_it(world: World) -> None:
    """An allocation is reported after the Pod has started, and only while a Pod uses it."""
    world.claim("a", label="r1")
    world.pod("a", name="train-0", label="r1")
    world.views["r1"] = view("r1", GPU, health=Health.LOST)
    assert "super cluster r1 may still run" in world.decided(world.pod("a", name="train-0", label="r1"))
    assert world.decided(world.pod("a", name="train-1")).startswith("r1: is lost")
    world.views["r1"] = replace(world.views["r1"], fenced=True)
    assert world.decided(world.pod("a", name="train-0", label="r1")) == "r2"
    assert world.decided(world.pod("a", name="train-1")) == "r2"


def test_an_allocated_claim_stays_where_its_class_is_withdrawn(world: World) -> None:
    world.claim("a", label="r1", allocated=True)
    world.views["r1"] = view("r1")
    assert world.decided(world.pod("a")) == "r1"


def test_a_pod_waits_for_claims_that_are_not_there(world: World) -> None:
    assert 'resourceclaim "a" not found' in world.decided(world.pod("a"))
    assert "is still to be made from its template" in world.decided(world.pod(TO_BE_MADE, name="q"))
    world.claim("b", deletionTimestamp="2026-05-01T12:00:00Z")
    assert 'resourceclaim "b" is being deleted' in world.decided(world.pod("b", name="s"))
    world.unread = "ResourceClaims cannot be read yet"
    assert world.unread in world.decided(world.pod("a"))


def test_the_patch_of_a_claim_fails_if_it_has_changed(world: World) -> None:
    assert device_claim_assignment(world.claim("a"), "r1") == {
        "metadata": {"uid": "uid-a", "resourceVersion": "7", "labels": {SUPER_CLUSTER: "r1"}}
    }


def test_claims_are_read_from_the_spec_and_those_of_templates_from_the_status() -> None:
    references = [
        {"name": "one", "resourceClaimName": "a"},
        {"name": "two", "resourceClaimTemplateName": "t"},
        {"name": "three", "resourceClaimTemplateName": "t"},
    ]
    spec = json.dumps({"resourceClaims": references}).encode()
    assert pod_needs(spec).devices == ("a", TO_BE_MADE)
    statuses = [{"name": "two", "resourceClaimName": "p-two-x"}, {"name": "three"}]
    status = json.dumps({"resourceClaimStatuses": statuses}).encode()
    assert pod_needs(spec, "p", status).devices == ("a", "p-two-x")
