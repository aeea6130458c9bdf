"""The progress of an expansion: types, states and amounts come up, the operator's texts do not."""

import json
from typing import Any

import pytest
from kinds_bench import Bench
from test_kinds_persistentvolumeclaim import KIND, below, bound

from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS
from vcsync.syncer.kinds.plan import Patch

SECRET = "rpc to 10.66.0.9 failed"
AT = "2026-05-01T12:00:00Z"


def condition(kind: str, status: str = "True", **fields: Any) -> dict[str, Any]:
    """Return a condition as the operator's resizer writes it."""
    given = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": AT}
    return given | {"reason": SECRET, "message": SECRET} | fields


def happens(bench: Bench, **status: Any) -> dict[str, Any]:
    """Change the status of the copy, and return the tenant's status once everything is settled."""
    bench.edit("super", PERSISTENT_VOLUME_CLAIMS, "data", {"status": status})
    bench.settle(KIND, "shop", "data")
    return shown(bench)


def shown(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = bench.get("tenant", PERSISTENT_VOLUME_CLAIMS, "data")["status"]
    return found


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Resizing", "is being resized"),
        ("FileSystemResizePending", "(re-)start a pod"),
        ("ControllerResizeError", "could not resize the volume"),
        ("NodeResizeError", "could not resize the volume"),
    ],
)
def test_conditions_of_a_resize_come_up_and_go(bench: Bench, kind: str, text: str) -> None:
    bound(bench)
    [found] = happens(bench, conditions=[condition(kind)])["conditions"]
    assert text in found.pop("message")
    assert found == {"type": kind, "status": "True", "lastTransitionTime": AT}
    assert happens(bench, conditions=None).get("conditions") is None


@pytest.mark.parametrize(
    "foreign",
    [
        condition("ModifyVolumeError"),
        condition("ModifyingVolume"),
        condition("example.com/Broken"),
        condition("Resizing", "perhaps"),
        {},
    ],
)
def test_other_conditions_stay_below(bench: Bench, foreign: dict[str, Any]) -> None:
    bound(bench)
    assert "conditions" not in happens(bench, conditions=[foreign])


def test_the_operators_texts_do_not_come_up(bench: Bench) -> None:
    bound(bench)
    status = happens(
        bench,
        conditions=[condition("Resizing"), condition("NodeResizeError")],
        allocatedResources={"storage": "5Gi", "example.com/pool": "1"},
        allocatedResourceStatuses={"storage": SECRET, "example.com/pool": SECRET},
    )
    assert "10.66.0.9" not in json.dumps(status)
    assert "example.com" not in json.dumps(status)


def test_conditions_of_others_in_the_tenant_remain(bench: Bench) -> None:
    bound(bench)
    own = {"type": "example.com/Checked", "status": "True", "lastProbeTime": None, "message": "by us"}
    bench.edit("tenant", PERSISTENT_VOLUME_CLAIMS, "data", {"status": {"conditions": [own]}})
    assert bench.settle(KIND, "shop", "data") == []
    kinds = [each["type"] for each in happens(bench, conditions=[condition("Resizing")])["conditions"]]
    assert kinds == ["example.com/Checked", "Resizing"]
    assert [each["type"] for each in happens(bench, conditions=[])["conditions"]] == ["example.com/Checked"]


def test_a_condition_that_the_tenant_forges_is_replaced(bench: Bench) -> None:
    bound(bench)
    forged = {"type": "Resizing", "status": "True", "message": "forged"}
    bench.edit("tenant", PERSISTENT_VOLUME_CLAIMS, "data", {"status": {"conditions": [forged]}})
    bench.settle(KIND, "shop", "data")
    assert shown(bench).get("conditions") is None


def test_a_list_of_conditions_is_written_only_over_the_version_that_was_read(bench: Bench) -> None:
    bound(bench)
    bench.edit("super", PERSISTENT_VOLUME_CLAIMS, "data", {"status": {"conditions": [condition("Resizing")]}})
    [patch] = bench.plan(KIND, "shop", "data").actions
    assert isinstance(patch, Patch)
    version = bench.get("tenant", PERSISTENT_VOLUME_CLAIMS, "data")["metadata"]["resourceVersion"]
    assert patch.patch["metadata"]["resourceVersion"] == version


def test_what_an_api_server_adds_to_a_condition_is_no_difference(bench: Bench) -> None:
    bound(bench)
    happens(bench, conditions=[condition("Resizing", lastTransitionTime=None)])
    found = shown(bench)["conditions"][0] | {"lastProbeTime": None, "lastTransitionTime": None}
    bench.edit("tenant", PERSISTENT_VOLUME_CLAIMS, "data", {"status": {"conditions": [found]}})
    assert bench.settle(KIND, "shop", "data") == []


@pytest.mark.parametrize(
    "state",
    [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizePending",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
    ],
)
def test_a_resize_that_can_be_recovered_from_shows_amount_and_state(bench: Bench, state: str) -> None:
    bound(bench)
    status = happens(
        bench, allocatedResources={"storage": "5Gi"}, allocatedResourceStatuses={"storage": state}
    )
    assert status["allocatedResources"] == {"storage": "5Gi"}
    assert status["allocatedResourceStatuses"] == {"storage": state}
    assert "5Gi" not in str(status["capacity"])
    after = happens(bench, allocatedResourceStatuses=None, capacity={"storage": "5Gi"})
    assert after["capacity"] == {"storage": "5Gi"}
    assert not after.get("allocatedResourceStatuses")


def test_an_expansion_that_failed_can_be_taken_back(bench: Bench) -> None:
    """RecoverVolumeExpansionFailure: the request may shrink to anything above the capacity."""
    bound(bench)
    for size in ("500Gi", "3Gi"):
        spec = {"resources": {"requests": {"storage": size}}}
        bench.edit("tenant", PERSISTENT_VOLUME_CLAIMS, "data", {"spec": spec})
        bench.settle(KIND, "shop", "data")
        assert below(bench)["spec"]["resources"]["requests"] == {"storage": size}


def test_nothing_comes_up_before_the_claim_is_bound_in_the_tenant(bench: Bench) -> None:
    bound(bench)
    bench.edit("tenant", PERSISTENT_VOLUME_CLAIMS, "data", {"status": {"phase": "Pending"}})
    assert "conditions" not in happens(bench, conditions=[condition("Resizing")])
