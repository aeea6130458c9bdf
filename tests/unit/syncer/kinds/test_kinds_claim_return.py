"""A claim that a super cluster cannot provision is given back, and never one that may have a volume."""

import json
from typing import Any

import pytest
from kinds_bench import Bench
from test_kinds_persistentvolumeclaim import HERE, KIND, below, bound, claim, plan, provision, publish, reason

from vcsync.api import names
from vcsync.api.provisioning import MOST_RETURNS, Provisioning, provisioning
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
from vcsync.syncer.kinds.plan import ConfirmAbsent, Create, Delete, Notify, Patch

SAYS = names.PROVISIONING_PREFIX + "r1"
PATIENCE = 300


def said(bench: Bench) -> Provisioning:
    found = bench.get("tenant", PERSISTENT_VOLUME_CLAIMS, "data")
    return provisioning(found["metadata"].get("annotations") or {}, "r1")


def label(bench: Bench) -> str | None:
    found = bench.get("tenant", PERSISTENT_VOLUME_CLAIMS, "data")
    shown: str | None = found["metadata"]["labels"].get(names.SUPER_CLUSTER)
    return shown


def fail(bench: Bench, seconds: float = PATIENCE) -> None:
    """Let the provisioner of the super cluster have failed for a time."""
    bench.failing[below(bench)["metadata"]["uid"]] = seconds


def pending(bench: Bench) -> None:
    publish(bench)
    claim(bench)
    bench.settle(KIND, "shop", "data")


def write(bench: Bench, annotation: Any, **labels: Any) -> None:
    """Act as the tenant."""
    metadata = {"annotations": {SAYS: annotation}, "labels": labels}
    bench.edit("tenant", PERSISTENT_VOLUME_CLAIMS, "data", {"metadata": metadata})


def test_a_claim_says_that_there_may_be_a_copy_before_there_is_one(bench: Bench) -> None:
    publish(bench)
    claim(bench)
    patch, create = plan(bench).actions
    assert isinstance(patch, Patch)
    assert isinstance(create, Create)
    assert patch.patch["metadata"]["resourceVersion"]
    assert said(bench).state == ""
    bench.execute(patch)
    assert said(bench).state == "requested"
    [create] = plan(bench).actions
    assert isinstance(create, Create)


def test_failures_are_waited_out_first(bench: Bench) -> None:
    pending(bench)
    assert reason(plan(bench)) == "super cluster r1 has not provisioned a volume yet"
    fail(bench, 100)
    found = plan(bench)
    assert not found.actions
    assert "gives the claim back after 300 s" in reason(found)
    assert found.wait is not None
    assert found.wait.after == PATIENCE - 100
    assert [(each.resource, each.name) for each in found.wait.on] == [(STORAGE_CLASSES, "fast")]


@pytest.mark.parametrize(("text", "seconds"), [("20", 20), ("-5", 0), ("soon", 300), ("1e3", 300)])
def test_the_operator_sets_the_time_for_each_class(bench: Bench, text: str, seconds: int) -> None:
    publish(bench)
    claim(bench)
    bench.edit(
        "super",
        STORAGE_CLASSES,
        "fast",
        {"metadata": {"annotations": {names.PROVISIONING_SECONDS: text}}},
    )
    bench.settle(KIND, "shop", "data")
    fail(bench, seconds)
    assert plan(bench).actions
    if seconds:
        fail(bench, seconds - 1)
        assert not plan(bench).actions


def test_a_claim_that_cannot_be_provisioned_is_given_back_after_its_copy_is_gone(bench: Bench) -> None:
    pending(bench)
    fail(bench)
    mark, notice = plan(bench).actions
    assert isinstance(notice, Notify)
    assert notice.reason == "GivenBack"
    bench.execute(mark)
    assert (said(bench).state, label(bench)) == ("returning", "r1")
    [doomed] = plan(bench).actions
    assert isinstance(doomed, Delete)
    assert doomed.resource_version == below(bench)["metadata"]["resourceVersion"]
    bench.execute(doomed)
    confirm, release = plan(bench).actions
    assert isinstance(confirm, ConfirmAbsent)
    bench.execute(confirm)
    assert label(bench) == "r1"
    bench.execute(release)
    assert (label(bench), said(bench)) == (None, Provisioning("", 1, "ProvisioningFailed"))
    assert not plan(bench).actions


def test_a_class_that_is_no_longer_published_gives_the_claim_back_at_once(bench: Bench) -> None:
    pending(bench)
    bench.remove("super", STORAGE_CLASSES, "fast")
    bench.settle(KIND, "shop", "data")
    assert not bench.has("super", PERSISTENT_VOLUME_CLAIMS, "data")
    assert (label(bench), said(bench)) == (None, Provisioning())
    assert "does not publish StorageClass fast any more" in bench.notices[0].message


def test_a_copy_that_still_exists_keeps_the_claim(bench: Bench) -> None:
    """Pods that use the copy delay its end."""
    pending(bench)
    fail(bench)
    bench.execute(plan(bench).actions[0])
    ending = {"metadata": {"deletionTimestamp": "2026-05-01T12:00:00Z"}}
    bench.edit("super", PERSISTENT_VOLUME_CLAIMS, "data", ending)
    found = plan(bench)
    assert not found.actions
    assert "is being deleted" in reason(found)
    assert label(bench) == "r1"


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"volumeName": "pvc-of-operator"}},
        {"status": {"phase": "Bound"}},
        {"spec": {"volumeName": "pvc-of-operator"}, "status": {"phase": "Lost"}},
    ],
)
@pytest.mark.parametrize("returning", [False, True])
def test_a_claim_that_may_be_bound_is_never_given_back(
    bench: Bench, change: dict[str, Any], returning: bool
) -> None:
    pending(bench)
    fail(bench)
    if returning:
        bench.execute(plan(bench).actions[0])
    bench.edit("super", PERSISTENT_VOLUME_CLAIMS, "data", change)
    bench.remove("super", STORAGE_CLASSES, "fast")
    for moved in ("r1", "r2"):
        bench.edit(
            "tenant",
            PERSISTENT_VOLUME_CLAIMS,
            "data",
            {"metadata": {"labels": {names.SUPER_CLUSTER: moved}}},
        )
        assert not any(isinstance(each, Delete) for each in plan(bench).actions)
        assert not any(
            isinstance(each, Patch) and each.patch["metadata"].get("labels", {}).get(names.SUPER_CLUSTER, 1) is None
            for each in plan(bench).actions
        )  # fmt: skip


def test_a_claim_that_is_bound_in_the_tenant_is_never_given_back(bench: Bench) -> None:
    """Somebody has replaced the copy in the super cluster."""
    bound(bench)
    bench.edit("super", PERSISTENT_VOLUME_CLAIMS, "data", {"spec": {"volumeName": None}, "status": None})
    fail(bench)
    write(bench, '{"state":"returning"}', **{names.SUPER_CLUSTER: "r2"})
    assert not any(isinstance(each, Delete) for each in plan(bench).actions)


def test_a_volume_that_comes_in_time_keeps_the_claim(bench: Bench) -> None:
    pending(bench)
    fail(bench)
    bench.execute(plan(bench).actions[0])
    provision(bench)
    bench.settle(KIND, "shop", "data")
    assert (label(bench), bench.has("super", PERSISTENT_VOLUME_CLAIMS, "data")) == ("r1", True)


def test_the_number_of_returns_is_limited(bench: Bench) -> None:
    pending(bench)
    for number in range(MOST_RETURNS):
        fail(bench)
        bench.settle(KIND, "shop", "data")
        assert said(bench).returns == number + 1
        write(bench, json.dumps({"returns": number + 1}), **HERE)
        bench.settle(KIND, "shop", "data")
    fail(bench)
    found = plan(bench)
    assert not found.actions
    assert "tries again" in reason(found)


def test_no_copy_is_made_while_another_super_cluster_may_have_one(bench: Bench) -> None:
    publish(bench)
    claim(bench, annotations={names.PROVISIONING_PREFIX + "r2": '{"state":"requested"}'})
    found = plan(bench)
    assert not found.actions
    assert "super cluster r2 may still have a volume" in reason(found)
    returned = {names.PROVISIONING_PREFIX + "r2": '{"returns":1}'}
    bench.edit("tenant", PERSISTENT_VOLUME_CLAIMS, "data", {"metadata": {"annotations": returned}})
    bench.settle(KIND, "shop", "data")
    assert below(bench)


def test_a_claim_that_the_tenant_moves_is_given_up_here_first(bench: Bench) -> None:
    pending(bench)
    moved = {"metadata": {"labels": {names.SUPER_CLUSTER: "r2"}}}
    bench.edit("tenant", PERSISTENT_VOLUME_CLAIMS, "data", moved)
    [doomed] = plan(bench).actions
    assert isinstance(doomed, Delete)
    assert doomed.resource_version
    assert said(bench).may_have_copy
    bench.settle(KIND, "shop", "data")
    assert (said(bench), label(bench)) == (Provisioning(), "r2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"state":"requested"}', Provisioning("requested")),
        ('{"state":"returning","returns":2,"reason":"x"}', Provisioning("returning", 2, "x")),
        ("not JSON", Provisioning("requested")),
        ('{"state":"other"}', Provisioning("requested")),
        ('{"returns":"many"}', Provisioning("requested")),
        ('{"returns":-4}', Provisioning()),
        ("{}", Provisioning()),
        ('{"reason":"' + "x" * 100 + '"}', Provisioning(reason="x" * 64)),
    ],
)
def test_what_a_tenant_writes_is_read_with_caution(text: str, expected: Provisioning) -> None:
    assert provisioning({SAYS: text}, "r1") == expected


@pytest.mark.parametrize("text", [None, "{}", "not JSON", '{"state":"other"}'])
def test_an_annotation_that_the_tenant_removes_returns(bench: Bench, text: str | None) -> None:
    pending(bench)
    write(bench, text)
    bench.settle(KIND, "shop", "data")
    assert said(bench).state == "requested"
    assert below(bench)
