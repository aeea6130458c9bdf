"""ResourceClaims: what reaches a super cluster, what the tenant sees of an allocation, and where a claim may be."""

from typing import Any

import msgspec
import pytest
from kinds_bench import Bench, super_ns

from vcsync.api import names
from vcsync.api.specs import PodPolicy
from vcsync.kube.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS
from vcsync.syncer.kinds import metadata, pod_policy
from vcsync.syncer.kinds.plan import Delete, Plan
from vcsync.syncer.kinds.resourceclaim import refusals

KIND = "resourceclaims"
HERE = {names.SUPER_CLUSTER: "r1"}
RESULT = {"request": "gpu", "driver": "gpus.example.com", "pool": "node-1", "device": "gpu-0"}


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.place()
    return made


def publish(bench: Bench, name: str = "gpu", *, public: bool = True) -> None:
    labels = {names.SUPER_PUBLIC: names.TRUE} if public else {}
    bench.put("super", DEVICE_CLASSES, {"metadata": {"name": name, "labels": labels}, "spec": {}})


def spec_of(*requests: dict[str, Any], **devices: Any) -> dict[str, Any]:
    wanted = [{"name": f"r{number}", **each} for number, each in enumerate(requests)]
    return {"devices": {"requests": wanted, **devices}}


GPU = {"exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}


def claim(bench: Bench, *, labels: Any = HERE, spec: Any = None, **fields: Any) -> None:
    body = {
        "metadata": {"name": "one", "labels": {**labels, "app": "x"}, "annotations": {"vendor/do": "this"}},
        "spec": spec or spec_of(GPU),
        **fields,
    }
    bench.put("tenant", RESOURCE_CLAIMS, body)


def plan(bench: Bench) -> Plan:
    return bench.plan(KIND, "shop", "one")


def reason(bench: Bench) -> str:
    found = plan(bench)
    assert found.wait is not None
    return found.wait.reason


def below(bench: Bench) -> Any:
    return bench.get("super", RESOURCE_CLAIMS, "one")


def above(bench: Bench) -> Any:
    return bench.get("tenant", RESOURCE_CLAIMS, "one")


def use(bench: Bench, name: str = "trainer", *, phase: str = "Running") -> dict[str, Any]:
    """Have a Pod of the tenant and its copy, and return the reservation of the copy."""
    spec = {"containers": [{"name": "c"}]}
    pod = bench.put("tenant", PODS, {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}})
    owner = {names.UID: pod["metadata"]["uid"]}
    copy = bench.put(
        "super",
        PODS,
        {"metadata": {"name": name, "namespace": super_ns("shop"), "annotations": owner}, "spec": spec},
    )
    return {"resource": "pods", "name": name, "uid": copy["metadata"]["uid"]}


def allocate(bench: Bench, *reservations: dict[str, Any]) -> None:
    """Act as the scheduler of the super cluster."""
    status = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": list(reservations)}
    bench.edit("super", RESOURCE_CLAIMS, "one", {"status": status})


def synced(bench: Bench) -> None:
    publish(bench)
    claim(bench)
    bench.settle(KIND, "shop", "one")


def test_a_claim_is_copied_without_the_tenants_metadata(bench: Bench) -> None:
    synced(bench)
    assert below(bench)["spec"] == spec_of(GPU)
    assert "app" not in below(bench)["metadata"]["labels"]
    assert "vendor/do" not in below(bench)["metadata"]["annotations"]
    assert plan(bench) == Plan()


@pytest.mark.parametrize("labels", [{}, {names.SUPER_CLUSTER: "r2"}])
def test_a_claim_without_pod_or_of_another_super_cluster_is_not_created(bench: Bench, labels: Any) -> None:
    publish(bench)
    claim(bench, labels=labels)
    assert not plan(bench).actions


@pytest.mark.parametrize("there", ["", "private"])
def test_a_claim_waits_for_each_of_its_classes_to_be_published(bench: Bench, there: str) -> None:
    publish(bench, "gpu")
    if there:
        publish(bench, "large", public=False)
    choice = {"firstAvailable": [{"name": "a", "deviceClassName": "large"}]}
    claim(bench, spec=spec_of(GPU, choice))
    assert reason(bench) == "super cluster r1 does not publish DeviceClass large"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (
            spec_of({"exactly": {"deviceClassName": "gpu", "adminAccess": True}}),
            "spec.devices.requests[0].exactly.adminAccess",
        ),
        (
            spec_of(GPU, {"firstAvailable": [{"deviceClassName": "gpu", "adminAccess": True}]}),
            "spec.devices.requests[1].firstAvailable[0].adminAccess",
        ),
        (
            spec_of(GPU, config=[{"opaque": {"driver": "gpus.example.com", "parameters": {"x": 1}}}]),
            "spec.devices.config",
        ),
        (
            spec_of({"exactly": {"deviceClassName": "gpu", "tolerations": [{"operator": "Exists"}]}}),
            "spec.devices.requests[0].exactly.tolerations[0]",
        ),
        ({"devices": {}}, "spec.devices.requests"),
        ({}, "spec.devices.requests"),
    ],
)
def test_access_to_devices_of_others_and_commands_to_drivers_are_refused(
    bench: Bench, spec: Any, path: str
) -> None:
    publish(bench)
    claim(bench, spec=spec or {"devices": None})
    [refusal] = refusals(spec, PodPolicy())
    assert refusal.startswith(path)
    found = plan(bench)
    [notice] = found.actions
    assert (notice.reason, notice.message) == (metadata.POLICY_REFUSED, refusal)  # type: ignore[union-attr]
    assert not bench.has("super", RESOURCE_CLAIMS, "one")


def test_the_policy_on_tolerations_holds_for_taints_of_devices() -> None:
    choice = {"deviceClassName": "gpu", "tolerations": [{"key": "spot"}, {"key": "repair"}]}
    spec = spec_of(GPU, {"firstAvailable": [choice]})
    assert refusals(spec, PodPolicy()) == []
    [refusal] = refusals(spec, PodPolicy(tolerations=("spot",)))
    path = "spec.devices.requests[1].firstAvailable[0].tolerations[1]"
    assert refusal == f"{path} tolerates taint repair, which is not allowed here; remove it"


def test_the_tenant_sees_that_devices_are_allocated_and_to_which_pods(bench: Bench) -> None:
    synced(bench)
    allocate(bench, use(bench, "trainer"), use(bench, "tester"))
    bench.settle(KIND, "shop", "one")
    uids = {name: bench.get("tenant", PODS, name)["metadata"]["uid"] for name in ("trainer", "tester")}
    assert above(bench)["status"] == {
        "allocation": {},
        "reservedFor": [{"resource": "pods", "name": name, "uid": uid} for name, uid in uids.items()],
    }


def test_an_allocation_is_settled_in_the_form_in_which_api_servers_store_it(bench: Bench) -> None:
    synced(bench)
    allocate(bench, use(bench))
    bench.settle(KIND, "shop", "one")
    bench.edit("tenant", RESOURCE_CLAIMS, "one", {"status": {"allocation": {"devices": {}}}})
    assert plan(bench) == Plan()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_reserves_nothing(bench: Bench, phase: str) -> None:
    """The tenant's resourceclaim-controller removes such reservations, and with the last one the allocation."""
    synced(bench)
    allocate(bench, use(bench, phase=phase))
    assert bench.settle(KIND, "shop", "one") == []


def test_pods_that_are_not_the_tenants_are_not_shown(bench: Bench) -> None:
    synced(bench)
    mine = use(bench)
    allocate(
        bench,
        {**mine, "uid": "of-another-pod"},
        {"resource": "pods", "name": "operators", "uid": "u"},
        {"resource": "jobs", "apiGroup": "batch", "name": "trainer", "uid": mine["uid"]},
    )
    assert bench.settle(KIND, "shop", "one") == []


def test_what_the_tenant_writes_into_the_status_is_replaced(bench: Bench) -> None:
    synced(bench)
    written = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": [{"name": "x", "uid": "x"}]}
    bench.edit("tenant", RESOURCE_CLAIMS, "one", {"status": written})
    bench.settle(KIND, "shop", "one")
    assert not above(bench).get("status")
    allocate(bench, use(bench))
    bench.edit("tenant", RESOURCE_CLAIMS, "one", {"status": written})
    bench.settle(KIND, "shop", "one")
    assert above(bench)["status"]["allocation"] == {}


def test_a_lost_label_is_restored(bench: Bench) -> None:
    synced(bench)
    bench.edit("tenant", RESOURCE_CLAIMS, "one", {"metadata": {"labels": {names.SUPER_CLUSTER: None}}})
    bench.settle(KIND, "shop", "one")
    assert above(bench)["metadata"]["labels"][names.SUPER_CLUSTER] == "r1"


def test_a_claim_that_moves_leaves_when_no_pod_here_uses_it(bench: Bench) -> None:
    synced(bench)
    allocate(bench, use(bench))
    bench.edit("tenant", RESOURCE_CLAIMS, "one", {"metadata": {"labels": {names.SUPER_CLUSTER: "r2"}}})
    assert not plan(bench).actions
    bench.edit("super", RESOURCE_CLAIMS, "one", {"status": None})
    [action] = plan(bench).actions
    assert isinstance(action, Delete)
    assert action.resource_version, "the scheduler may allocate in between"
    bench.execute(action)
    assert plan(bench) == Plan()


def test_the_copy_goes_with_the_claim(bench: Bench) -> None:
    synced(bench)
    bench.remove("tenant", RESOURCE_CLAIMS, "one")
    bench.settle(KIND, "shop", "one")
    assert not bench.has("super", RESOURCE_CLAIMS, "one")


def test_a_claim_of_the_operator_with_that_name_is_not_touched(bench: Bench) -> None:
    publish(bench)
    bench.put(
        "super",
        RESOURCE_CLAIMS,
        {"metadata": {"name": "one", "namespace": super_ns("shop")}, "spec": spec_of(GPU)},
    )
    claim(bench)
    [notice] = plan(bench).actions
    assert notice.reason == metadata.NAME_TAKEN  # type: ignore[union-attr]


# --- The limit of devices ---


LIMIT = "gpu.deviceclass.resource.k8s.io/devices"


def limit(bench: Bench, devices: str) -> None:
    """Have slices with this many devices."""
    bench.placements["shop"] = msgspec.structs.replace(bench.placements["shop"], devices=devices)


def quota(bench: Bench) -> Any:
    return bench.get("super", RESOURCE_QUOTAS, names.SUPER_QUOTA_NAME)


def enforce(bench: Bench) -> None:
    """Act as the controller of ResourceQuotas in the super cluster."""
    hard = quota(bench)["spec"]["hard"]
    bench.edit("super", RESOURCE_QUOTAS, names.SUPER_QUOTA_NAME, {"status": {"hard": hard}})


def test_a_claim_is_created_once_the_devices_of_its_class_are_limited(bench: Bench) -> None:
    limit(bench, "4")
    synced(bench)
    assert quota(bench)["spec"]["hard"][LIMIT] == "4"
    assert not bench.has("super", RESOURCE_CLAIMS, "one"), "admission does not count them yet"
    assert reason(bench) == "waits for the limit of its devices"
    enforce(bench)
    bench.settle(KIND, "shop", "one")
    assert bench.has("super", RESOURCE_CLAIMS, "one")


@pytest.mark.parametrize(("devices", "wanted"), [("8", "8"), ("4", "4"), ("", None)])
def test_the_limit_follows_the_slices(bench: Bench, devices: str, wanted: str | None) -> None:
    limit(bench, "4")
    synced(bench)
    limit(bench, devices)
    bench.settle("namespaces", "", "shop")
    assert quota(bench)["spec"]["hard"].get(LIMIT) == wanted


# --- Pods ------------------------------------------------------------------------------------------------


def pod(bench: Bench, *references: dict[str, Any], made: dict[str, str] | None = None) -> str:
    statuses = [{"name": name, "resourceClaimName": each} for name, each in (made or {}).items()]
    body = {
        "metadata": {"name": "p", "labels": HERE},
        "spec": {"containers": [{"name": "c"}], "resourceClaims": list(references)},
        "status": {"phase": "Pending", "resourceClaimStatuses": statuses},
    }
    uid: str = bench.put("tenant", PODS, body)["metadata"]["uid"]
    return uid


def test_a_pod_waits_for_the_copy_of_its_claim(bench: Bench) -> None:
    publish(bench)
    pod(bench, {"name": "gpu", "resourceClaimName": "one"})
    found = bench.plan("pods", "shop", "p")
    assert found.wait is not None
    assert found.wait.reason == "waits in super cluster r1 for ResourceClaim one"
    claim(bench)
    bench.settle(KIND, "shop", "one")
    bench.settle("pods", "shop", "p")
    assert bench.get("super", PODS, "p")["spec"]["resourceClaims"] == [
        {"name": "gpu", "resourceClaimName": "one"}
    ]


def test_a_pod_uses_the_claim_that_was_made_for_it_from_a_template(bench: Bench) -> None:
    publish(bench)
    uid = pod(bench, {"name": "gpu", "resourceClaimTemplateName": "t"}, made={"gpu": "one"})
    claim(bench)
    bench.settle(KIND, "shop", "one")
    assert bench.plan("pods", "shop", "p").wait is not None, "the claim was not made for the Pod"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    bench.edit("tenant", RESOURCE_CLAIMS, "one", {"metadata": {"ownerReferences": [owner]}})
    bench.settle("pods", "shop", "p")
    assert bench.get("super", PODS, "p")["spec"]["resourceClaims"] == [
        {"name": "gpu", "resourceClaimName": "one"}
    ]
    statuses = bench.get("tenant", PODS, "p")["status"]["resourceClaimStatuses"]
    assert statuses == [{"name": "gpu", "resourceClaimName": "one"}], "the tenant's controller writes them"


def test_a_pod_waits_for_a_claim_that_is_still_to_be_made(bench: Bench) -> None:
    pod(bench, {"name": "gpu", "resourceClaimTemplateName": "t"})
    found = bench.plan("pods", "shop", "p")
    assert found.wait is not None
    assert not found.actions


def test_other_sources_of_claims_are_refused() -> None:
    spec = {"resourceClaims": [{"name": "a", "resourceClaimName": "one"}, {"name": "b", "podGroup": "x"}]}
    [refusal] = pod_policy.refusals(spec, pod_policy.PodPolicy())
    assert refusal.startswith("spec.resourceClaims[1].podGroup is not supported here")
