"""vcsync's objects: unknown fields are ignored, and known fields are validated."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.api.conditions import set_condition
from vcsync.api.fields import PercentOrQuantity, PositiveQuantity, Quantity
from vcsync.api.objects import (
    InvalidObject,
    NamespacePlacement,
    SuperCluster,
    Tenant,
    VirtualCluster,
    status_patch,
    to_wire,
)
from vcsync.api.specs import (
    Explanation,
    NamespacePlacementSpec,
    NamespacePlacementStatus,
    NodeCounts,
    PodPolicy,
    SuperClusterStatus,
    VirtualClusterCondition,
    VirtualClusterRef,
    VirtualClusterStatus,
)
from vcsync.objects.envelope import parse
from vcsync.objects.quantity import InvalidQuantity, milli

PLACEMENT_SPEC = {
    "virtualCluster": {"namespace": "vcsync", "name": "acme", "uid": "1-2"},
    "tenant": "vcsync-70b001-acme",
    "namespace": "default",
    "namespaceUID": "3-4",
}


def envelope_of(metadata: dict[str, Any], **fields: Any) -> Any:
    return parse(msgspec.json.encode({"apiVersion": "x/v1", "kind": "X", "metadata": metadata, **fields}))


def test_an_object_of_virtualcluster_is_decoded() -> None:
    vc = VirtualCluster.from_envelope(
        envelope_of(
            {"name": "vc-sample-1", "namespace": "default", "uid": "u", "resourceVersion": "7"},
            spec={
                "clusterVersionName": "cv-sample-np",
                "clusterDomain": "cluster.local",
                "pkiExpireDays": 365,
                "opaqueMetaPrefixes": ["tenant.example.com"],
                "transparentMetaPrefixes": ["k8s.net.status"],
                "serviceCidr": "10.32.0.0/16",
            },
            status={
                "phase": "Running",
                "clusterNamespace": "default-532c0e-vc-sample-1",
                "message": "tenant control plane is running",
                "reason": "TenantControlPlaneRunning",
                "conditions": [
                    {
                        "status": "True",
                        "lastTransitionTime": "2023-01-01T00:00:00Z",
                        "reason": "TenantControlPlaneRunning",
                        "message": "tenant control plane is running",
                    }
                ],
            },
        )
    )
    assert vc.spec.cluster_version_name == "cv-sample-np"
    assert vc.spec.opaque_meta_prefixes == ("tenant.example.com",)
    assert vc.status.cluster_namespace == "default-532c0e-vc-sample-1"
    assert vc.status.conditions[0].type == ""
    assert (vc.spec.weight, vc.spec.pod_policy) == (1, PodPolicy())


def test_metadata_is_copied() -> None:
    tenant = Tenant.from_envelope(
        envelope_of(
            {
                "name": "acme",
                "uid": "u",
                "resourceVersion": "12",
                "generation": 3,
                "labels": {"a": "b"},
                "annotations": {"c": "d"},
                "finalizers": ["e/f"],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            },
            spec={},
        )
    )
    assert (tenant.name, tenant.namespace, tenant.uid) == ("acme", "", "u")
    assert (tenant.resource_version, tenant.generation, tenant.deleting) == ("12", 3, True)
    assert (tenant.labels, tenant.annotations, tenant.finalizers) == ({"a": "b"}, {"c": "d"}, ("e/f",))


def test_fields_of_a_newer_version_are_ignored() -> None:
    tenant = Tenant.from_envelope(
        envelope_of({"name": "acme"}, spec={"weight": 2, "moods": ["calm"]}, status={"x": 1})
    )
    assert tenant.spec.weight == 2


def test_an_object_without_status_has_an_empty_one() -> None:
    super_cluster = SuperCluster.from_envelope(envelope_of({"name": "r1"}, spec={"id": "r1"}))
    assert super_cluster.status == SuperClusterStatus()


@pytest.mark.parametrize(
    ("type_", "spec", "complaint"),
    [
        (VirtualCluster, {"weight": 0}, "VirtualCluster ns/x: .*>= 1.*`spec.weight`"),
        (VirtualCluster, {"podPolicy": {"hostPID": "Maybe"}}, "Maybe.*`spec.podPolicy.hostPID`"),
        (VirtualCluster, {"quota": {"cpu": "-1"}}, "a quantity that is not negative.*`-1`.*`spec.quota"),
        (VirtualCluster, {"quota": {"cpu": True}}, "a quantity that is not negative.*`spec.quota"),
        (VirtualCluster, {"sliceSize": {"cpu": 0}}, "a quantity greater than zero.*`spec.sliceSize"),
        (VirtualCluster, {"apiEndpoint": {"port": 1}}, "host.*`spec.apiEndpoint`"),
        (VirtualCluster, {"apiEndpoint": {"host": "a/b"}}, "`spec.apiEndpoint.host`"),
        (VirtualCluster, [], "`spec`"),
        (SuperCluster, {}, "missing required field `id` - at `spec`"),
        (SuperCluster, {"id": "R1"}, "`spec.id`"),
        (SuperCluster, {"id": "r1", "headroom": {"cpu": "101%"}}, "0% to 100%.*`101%`"),
        (
            SuperCluster,
            {"id": "r1", "taints": [{"key": "a", "effect": "Never"}]},
            r"`spec.taints\[0\].effect`",
        ),
        (NamespacePlacement, PLACEMENT_SPEC | {"pins": {"r1": -1}}, ">= 0.*`spec.pins"),
        (NamespacePlacement, PLACEMENT_SPEC | {"slices": 1001}, "<= 1000.*`spec.slices`"),
    ],
)
def test_invalid_values_are_refused_with_the_fields_name(type_: Any, spec: Any, complaint: str) -> None:
    with pytest.raises(InvalidObject, match=complaint):
        type_.from_envelope(envelope_of({"name": "x", "namespace": "ns"}, spec=spec))


def test_an_error_in_the_status_names_the_status() -> None:
    with pytest.raises(InvalidObject, match=r"SuperCluster r1: .*`status\.nodes\.ready`"):
        SuperCluster.from_envelope(
            envelope_of({"name": "r1"}, spec={"id": "r1"}, status={"nodes": {"ready": "many"}})
        )


@pytest.mark.parametrize(
    "failure",
    [{"state": "Gone", "since": "2026-01-01T00:00:00Z"}, {"state": "Lost"}, {"failures": -1}, [], 5, "Lost"],
)
def test_a_record_of_failures_that_cannot_be_read_makes_nothing_else_unreadable(failure: Any) -> None:
    status = {"version": "v1", "failure": failure}
    found = SuperCluster.from_envelope(envelope_of({"name": "r1"}, spec={"id": "r1"}, status=status))
    assert (found.status, found.status.failure) == (SuperClusterStatus(version="v1"), None)
    assert "`status.failure" in found.failure_problem
    with pytest.raises(InvalidObject, match=r"`status\.nodes\.ready`"):
        SuperCluster.from_envelope(
            envelope_of({"name": "r1"}, spec={"id": "r1"}, status=status | {"nodes": {"ready": "many"}})
        )


def test_a_status_that_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidObject, match="`status`"):
        SuperCluster.from_envelope(envelope_of({"name": "r1"}, spec={"id": "r1"}, status=5))


NUMBERS = st.one_of(
    st.from_regex(r"[0-9]{1,8}(\.[0-9]{0,8})?", fullmatch=True),
    st.from_regex(r"\.[0-9]{1,8}", fullmatch=True),
)
SUFFIXES = st.sampled_from(
    ["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E3", "e+12", "E-9", "e03"]
)


@given(st.sampled_from(["", "+"]), NUMBERS, SUFFIXES)
def test_the_whole_grammar_of_quantities_is_accepted(sign: str, number: str, suffix: str) -> None:
    text = sign + number + suffix
    assert Quantity.parse(text) == text
    assert PercentOrQuantity.parse(text) == text
    assert milli(text) >= 0
    if any(digit in "123456789" for digit in number):
        assert PositiveQuantity.parse(text) == text
    else:
        with pytest.raises(ValueError, match="greater than zero"):
            PositiveQuantity.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        *["", "-1", "1 ", " 1", "1\n", "1K", "1ki", "1mi", "1e", "1Ee", "1e3Ki", "1e3.5", ".", "+", "1..2"],
        *["0x1", "1,5", "1%", "NaN", "1" * 65, "\u0661"],
    ],
)
def test_a_text_that_is_not_a_quantity_is_refused(text: str) -> None:
    for type_ in (Quantity, PositiveQuantity):
        with pytest.raises(ValueError, match="Expected a quantity"):
            type_.parse(text)
    if text not in ("-1", "1" * 65):
        with pytest.raises(InvalidQuantity):
            milli(text)


@pytest.mark.parametrize("text", ["0%", "9%", "10%", "99%", "100%", "2", "100Mi"])
def test_headroom_is_a_percentage_or_an_amount(text: str) -> None:
    assert PercentOrQuantity.parse(text) == text


@pytest.mark.parametrize("text", ["101%", "-1%", "1.5%", "%", "010%", "10 %", "10%%"])
def test_other_percentages_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="from 0% to 100%"):
        PercentOrQuantity.parse(text)


def test_whole_numbers_are_quantities_too() -> None:
    vc = VirtualCluster.from_envelope(envelope_of({"name": "x"}, spec={"quota": {"cpu": 2, "memory": "4Gi"}}))
    assert vc.spec.quota == {"cpu": "2", "memory": "4Gi"}
    assert to_wire(vc.spec)["quota"] == {"cpu": "2", "memory": "4Gi"}


def test_a_written_object_is_read_back_unchanged() -> None:
    spec = NamespacePlacementSpec(
        virtual_cluster=VirtualClusterRef(namespace="vcsync", name="acme", uid="1-2"),
        tenant="vcsync-70b001-acme",
        namespace="default",
        namespace_uid="3-4",
        quota={"cpu": Quantity("200m")},
        slices=2,
        pins={"r1": 1},
    )
    status = NamespacePlacementStatus(
        placements={"r1": 1},
        waiting=1,
        explanation=(Explanation(super_cluster="r2", refused_by=("Capacity",), score=-3, reason="full"),),
        conditions=set_condition(
            (), "Placed", status=False, reason="Waiting", message="1 of 2", now="2026-01-01T00:00:00Z"
        ),
    )
    envelope = envelope_of(
        {"name": "default", "namespace": "root"}, spec=to_wire(spec), status=to_wire(status)
    )
    placement = NamespacePlacement.from_envelope(envelope)
    assert (placement.spec, placement.status) == (spec, status)


def test_fields_that_are_none_are_left_out() -> None:
    wire = to_wire(SuperClusterStatus(nodes=NodeCounts(ready=1, total=2)))
    assert "heartbeatTime" not in wire
    assert wire["nodes"] == {"ready": 1, "total": 2}


def test_fields_that_are_none_are_left_out_within_lists() -> None:
    status = VirtualClusterStatus(conditions=(VirtualClusterCondition(reason="ClusterRunning"),))
    assert "lastTransitionTime" not in to_wire(status)["conditions"][0]


def test_a_status_patch_contains_only_changes() -> None:
    old = NamespacePlacementStatus(placements={"r1": 2, "r2": 1}, waiting=1)
    new = NamespacePlacementStatus(placements={"r1": 3}, waiting=0)
    assert status_patch(old, new, resource_version="5") == {
        "metadata": {"resourceVersion": "5"},
        "status": {"placements": {"r1": 3, "r2": None}, "waiting": 0},
    }


def test_a_patch_removes_a_field_that_is_no_longer_set() -> None:
    old = SuperClusterStatus(heartbeat_time="2026-01-01T00:00:00Z")
    assert status_patch(old, SuperClusterStatus()) == {"status": {"heartbeatTime": None}}


def test_no_change_makes_no_patch() -> None:
    status = NamespacePlacementStatus(placements={"r1": 2})
    assert status_patch(status, status, resource_version="5") is None
