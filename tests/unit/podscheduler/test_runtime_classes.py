"""Pods with a published RuntimeClass go only to super clusters that publish it."""

import pytest
from msgspec.structs import replace

from vcsync.api.refusals import NOT_PUBLISHED
from vcsync.api.specs import PublishedRuntimeClass
from vcsync.podscheduler.accounting import Assign, PodAccounting, Verdict, Wait, Withdraw
from vcsync.podscheduler.pods import Pod
from vcsync.scheduling.pods import PodNeeds, pod_needs
from vcsync.scheduling.snapshot import Health, SuperView

NS = "shop"
GVISOR = PublishedRuntimeClass(name="gvisor")
LACKS = "does not publish RuntimeClass gvisor"


def views(*publishing: str) -> dict[str, SuperView]:
    return {
        each: SuperView(each, Health.READY, {}, runtime_classes=(GVISOR,) if each in publishing else ())
        for each in ("r1", "r2", "r3")
    }


def pod(runtime_class: str = "gvisor", *, label: str = "", node: str = "") -> Pod:
    needs = PodNeeds({"cpu": 100}, node, runtime_class=runtime_class)
    return Pod(NS, "web", "uid", "1", needs, label, label, deleting=False, waiting_message="")


def decided(found: Pod, pool: dict[str, SuperView]) -> Verdict:
    accounting = PodAccounting()
    accounting.grant(NS, {"cpu": 1000}, {"r1": 1, "r2": 1})
    accounting.update(found)
    return accounting.decide(found, pool)


@pytest.mark.parametrize(
    ("publishing", "chosen"), [(("r2",), "r2"), (("r1", "r2"), "r1"), ((), "r1")], ids=["one", "all", "none"]
)
def test_a_pod_goes_where_its_class_is_published(publishing: tuple[str, ...], chosen: str) -> None:
    verdict = decided(pod(), views(*publishing))
    assert isinstance(verdict, Assign)
    assert verdict.super_id == chosen


def test_a_pod_waits_with_the_reason_where_no_super_cluster_of_its_namespace_has_the_class() -> None:
    verdict = decided(pod(), views("r3"))
    assert isinstance(verdict, Wait)
    assert verdict.decision.reasons() == f"r1: {LACKS}; r2: {LACKS}"


def test_a_pod_that_is_not_bound_leaves_a_super_cluster_that_publishes_the_class_no_more() -> None:
    verdict = decided(pod(label="r1"), views("r2"))
    assert isinstance(verdict, Withdraw)
    assert (verdict.super_id, verdict.reason) == ("r2", NOT_PUBLISHED)


@pytest.mark.parametrize(
    "found",
    [pod(label="r2"), pod("", label="r1"), pod("own", label="r1"), pod(label="r1", node="node.r1")],
    ids=["published there", "no class", "a class of the tenant's own", "bound"],
)
def test_other_pods_stay(found: Pod) -> None:
    assert decided(found, views("r2")) is None


def test_the_class_is_read_from_the_spec() -> None:
    assert pod_needs(b'{"runtimeClassName":"gvisor"}').runtime_class == "gvisor"
    assert replace(pod_needs(b'{"runtimeClassName":null}'), requests={}) == PodNeeds()
