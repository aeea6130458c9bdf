"""Edge cases of the kinds: orphans, grace periods, ports, texts, and the comparison of conditions."""

from __future__ import annotations

from typing import Any

import pytest
from kinds_bench import CONTEXT, Bench, super_ns
from msgspec.structs import replace

from vcsync.api.specs import PodPolicy
from vcsync.kube.resources import (
    CONFIG_MAPS,
    ENDPOINTS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from vcsync.syncer.kinds import pod_policy, pod_status, service
from vcsync.syncer.kinds.node import _material
from vcsync.syncer.kinds.plan import Delete, Notify, Patch

BODIES: dict[Resource, dict[str, Any]] = {
    CONFIG_MAPS: {"data": {"k": "v"}},
    SECRETS: {"type": "Opaque", "data": {}},
    SERVICES: {"spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}},
    SERVICE_ACCOUNTS: {},
    ENDPOINTS: {"subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]},
}


@pytest.mark.parametrize("resource", BODIES, ids=lambda resource: resource.plural)
@pytest.mark.parametrize("seen", [True, False])
def test_an_orphan_is_deleted_and_confirmed_unless_its_deletion_was_observed(
    bench: Bench, resource: Resource, seen: bool
) -> None:
    bench.put("tenant", resource, {"metadata": {"name": "one"}, **BODIES[resource]})
    bench.settle(resource.plural, "shop", "one")
    uid = bench.get("super", resource, "one")["metadata"]["uid"]
    bench.remove("tenant", resource, "one", seen=seen)
    assert bench.plan(resource.plural, "shop", "one").actions == (
        Delete("super", resource, super_ns("shop"), "one", uid, confirm=not seen),
    )


@pytest.mark.parametrize("resource", BODIES, ids=lambda resource: resource.plural)
def test_an_orphan_of_another_tenant_is_kept(bench: Bench, resource: Resource) -> None:
    bench.put("tenant", resource, {"metadata": {"name": "one"}, **BODIES[resource]})
    bench.settle(resource.plural, "shop", "one")
    bench.remove("tenant", resource, "one")
    bench.context = replace(CONTEXT, key="other-1a2b3c-main")
    v, p = bench.pair(resource.plural, "shop", "one")
    assert v is None
    assert p is not None
    assert bench.plan(resource.plural, "shop", "one").actions == ()


# ---- Pods ------------------------------------------------------------------------------


@pytest.mark.parametrize(("granted", "asked"), [(0, 1), (1, 1), (2, 2), (30, 30)])
def test_a_pod_deleted_in_the_super_cluster_is_deleted_in_the_tenant_with_the_same_grace(
    bench: Bench, granted: int, asked: int
) -> None:
    bench.put("tenant", PODS, {"metadata": {"name": "web"}, "spec": {}})
    bench.settle("pods", "shop", "web")
    gone = {"deletionTimestamp": "2026-05-01T12:00:30Z", "deletionGracePeriodSeconds": granted}
    bench.edit("super", PODS, "web", {"metadata": gone})
    (ended,) = [each for each in bench.plan("pods", "shop", "web").actions if isinstance(each, Delete)]
    assert (ended.side, ended.grace_seconds, ended.confirm) == ("tenant", asked, True)


@pytest.mark.parametrize(
    ("policy", "toleration", "refused"),
    [
        (
            PodPolicy(),
            {"operator": "Exists"},
            "t tolerates every taint, those of control plane nodes too, which is not allowed here; name the taint in key",
        ),
        (
            PodPolicy(control_plane_tolerations="Allow", tolerations=[]),
            {"operator": "Exists"},
            "t tolerates every taint, which is not allowed here; name the taint in key",
        ),
        (PodPolicy(control_plane_tolerations="Allow"), {"operator": "Exists"}, None),
        (
            PodPolicy(),
            {"key": "node-role.kubernetes.io/control-plane"},
            (
                "t tolerates taint node-role.kubernetes.io/control-plane of control plane nodes, which is not "
                "allowed here; remove it"
            ),
        ),
        (PodPolicy(tolerations=["gpu"]), {"key": "gpu"}, None),
        (PodPolicy(tolerations=["gpu"]), {"key": "node.kubernetes.io/not-ready"}, None),
        (
            PodPolicy(tolerations=["gpu"]),
            {"key": "disk"},
            "t tolerates taint disk, which is not allowed here; remove it",
        ),
        (PodPolicy(), {"key": "disk"}, None),
    ],
)
def test_tolerations_that_are_not_allowed_are_reported(
    policy: PodPolicy, toleration: dict[str, str], refused: str | None
) -> None:
    assert pod_policy.toleration_refusal(toleration, "t", policy) == refused


SAID = {"type": "Ready", "status": "True", "reason": "R", "message": "m"}


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"lastTransitionTime": "2026-05-01T12:00:00Z"}, True),
        ({"status": "False"}, False),
        ({"reason": "S"}, False),
        ({"message": "n"}, False),
        ({"reason": ""}, False),
    ],
)
def test_conditions_are_equal_regardless_of_their_times(change: dict[str, str], same: bool) -> None:
    assert pod_status._equal({**SAID, **change}, SAID) is same
    assert (_material([{**SAID, **change}]) == _material([SAID])) is same


def test_an_absent_reason_is_an_empty_one() -> None:
    without = {"type": "Ready", "status": "True", "message": "m"}
    assert pod_status._equal(without, {**SAID, "reason": ""})
    assert _material([without]) == _material([{**SAID, "reason": ""}])
    assert not pod_status._equal(without, None)


# ---- Services ----------------------------------------------------------------------------


def test_a_refused_service_is_reported_with_the_remedy(bench: Bench) -> None:
    bench.put(
        "tenant",
        SERVICES,
        {"metadata": {"name": "web"}, "spec": {"externalIPs": ["192.0.2.1"], "ports": [{"port": 80}]}},
    )
    (notice,) = bench.plan("services", "shop", "web").actions
    assert notice == Notify(
        "Warning",
        "PolicyRefused",
        "spec.externalIPs is not allowed: it could catch other tenants' traffic; use a Service of type LoadBalancer, "
        "or remove spec.externalIPs",
    )


@pytest.mark.parametrize(
    ("wanted", "actual", "patch"),
    [
        ({"type": "ClusterIP"}, {"type": "LoadBalancer", "loadBalancerClass": "x"}, {"type": "ClusterIP"}),
        (
            {"type": "ClusterIP"},
            {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False},
            {"type": "ClusterIP"},
        ),
        (
            {"type": "LoadBalancer"},
            {"type": "LoadBalancer", "loadBalancerClass": "x"},
            {"loadBalancerClass": None},
        ),
        ({"type": "ClusterIP"}, {"type": "ClusterIP", "externalName": "x"}, {"externalName": None}),
        (
            {"type": "ClusterIP", "loadBalancerClass": "y"},
            {"type": "ClusterIP", "loadBalancerClass": "x"},
            {"loadBalancerClass": "y"},
        ),
    ],
)
def test_fields_that_follow_from_the_type_of_a_service_are_not_patched(
    wanted: dict[str, Any], actual: dict[str, Any], patch: dict[str, Any]
) -> None:
    assert service._spec_patch(wanted, actual) == patch


@pytest.mark.parametrize(
    ("wanted", "actual", "node_ports"),
    [
        # By name, also where the number has changed.
        ([{"name": "a", "port": 81}], [{"name": "a", "port": 80, "nodePort": 30001}], [30001]),
        # By number and protocol where there is no name.
        (
            [{"port": 53, "protocol": "UDP"}],
            [
                {"port": 53, "protocol": "TCP", "nodePort": 30001},
                {"port": 53, "protocol": "UDP", "nodePort": 30002},
            ],
            [30002],
        ),
        # A name that has moved takes its node port along; nobody else gets the same one.
        (
            [{"name": "b", "port": 80}, {"name": "a", "port": 81}],
            [{"name": "a", "port": 80, "nodePort": 30001}],
            [30001, None],
        ),
        # Of two protocols the same number may be used twice.
        (
            [{"name": "a", "port": 53, "protocol": "UDP"}, {"name": "b", "port": 53, "protocol": "TCP"}],
            [
                {"name": "a", "port": 53, "protocol": "UDP", "nodePort": 30001},
                {"name": "b", "port": 53, "protocol": "TCP", "nodePort": 30001},
            ],
            [30001, 30001],
        ),
        ([{"port": 80}], [{"port": 80}], [None]),
    ],
)
def test_node_ports_stay_with_their_ports(
    wanted: list[dict[str, Any]], actual: list[dict[str, Any]], node_ports: list[int | None]
) -> None:
    ports = service._with_node_ports(service._ports({"ports": wanted}), {"ports": actual})
    assert [port.get("nodePort") for port in ports] == node_ports


def test_a_moved_port_keeps_its_node_port_in_the_super_cluster(bench: Bench) -> None:
    bench.put(
        "tenant",
        SERVICES,
        {
            "metadata": {"name": "web"},
            "spec": {"type": "NodePort", "selector": {"a": "b"}, "ports": [{"name": "a", "port": 80}]},
        },
    )
    bench.settle("services", "shop", "web")
    bench.edit(
        "super",
        SERVICES,
        "web",
        {
            "spec": {
                "ports": [{"name": "a", "port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": 30007}]
            }
        },
    )
    ports = [{"name": "a", "port": 81, "protocol": "TCP", "targetPort": 81}]
    bench.edit("tenant", SERVICES, "web", {"spec": {"ports": ports}})
    patches = [each for each in bench.plan("services", "shop", "web").actions if isinstance(each, Patch)]
    (patch,) = [each for each in patches if each.side == "super"]
    assert patch.patch["spec"]["ports"] == [{**ports[0], "nodePort": 30007}]
