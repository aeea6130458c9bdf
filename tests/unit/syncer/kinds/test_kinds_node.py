"""Virtual nodes: the fields that tenants see, and the updates of these fields."""

import copy
import json
from typing import Any

import msgspec
import pytest
from kinds_bench import CONTEXT

from vcsync.api import names
from vcsync.api.specs import ShownNodes
from vcsync.api.without_effect import CORDONED, LABELLED, TAINTED
from vcsync.objects.envelope import Envelope, parse
from vcsync.objects.merge_patch import merge_patch
from vcsync.syncer.kinds.node import (
    kubelet_fields_changed,
    node_gone_patch,
    node_lost_patch,
    node_patch,
    node_status_patch,
    virtual_node,
    without_effect,
)
from vcsync.syncer.kinds.plan import TenantContext
from vcsync.syncer.kinds.shown_nodes import MOST_LABELS

Json = dict[str, Any]
LATER = "2026-05-01T13:00:00Z"
SHOWING = msgspec.structs.replace(CONTEXT, shown_nodes=ShownNodes(taints=("gpu",)))


def node(**status: Any) -> Json:
    return {
        "metadata": {
            "name": "node-1",
            "uid": "n1",
            "labels": {
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "arm64",
                "kubernetes.io/hostname": "node-1",
                "topology.kubernetes.io/zone": "z",
                "internal": "x",
            },
        },
        "spec": {
            "providerID": "cloud://secret",
            "podCIDR": "10.1.0.0/24",
            "taints": [
                {"key": "gpu", "effect": "NoSchedule"},
                {"key": "gpu", "effect": "PreferNoSchedule"},
                {"key": "internal", "effect": "NoExecute"},
            ],
        },
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi"},
            "allocatable": {"cpu": "7", "memory": "30Gi"},
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "ok",
                    "lastHeartbeatTime": "2026-05-01T12:00:00Z",
                    "lastTransitionTime": "2026-05-01T11:00:00Z",
                }
            ],
            "addresses": [
                {"type": "InternalIP", "address": "10.0.0.1"},
                {"type": "ExternalIP", "address": "192.0.2.1"},
                {"type": "Hostname", "address": "node-1"},
            ],
            "nodeInfo": {
                "machineID": "m",
                "systemUUID": "s",
                "bootID": "b",
                "kernelVersion": "6.1",
                "kubeletVersion": "v1.35.0",
                "architecture": "arm64",
            },
            "images": [{"names": ["other-tenant/app"]}],
            "volumesInUse": ["x"],
            **status,
        },
    }


def envelope(body: Json) -> Envelope:
    return parse(json.dumps(body).encode())


def test_a_virtual_node_does_not_reveal_the_identity_of_its_node() -> None:
    shown = virtual_node(envelope(node()), SHOWING)
    assert shown["metadata"] == {
        "name": "node-1.r1",
        "labels": {
            names.VIRTUAL_NODE: "true",
            names.SUPER_CLUSTER_ID: "r1",
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "arm64",
            "kubernetes.io/hostname": "node-1.r1",
        },
        "annotations": {names.SHOWN: '{"labels":[],"taints":["gpu"]}'},
    }
    assert shown["spec"] == {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    assert shown["status"]["addresses"] == [
        {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "Hostname", "address": "logs-do-not-reach-the-clusters-of-your-operator.invalid"},
    ]
    info = shown["status"]["nodeInfo"]
    assert (info["machineID"], info["systemUUID"], info["bootID"]) == ("", "", "")
    assert info["kubeletVersion"] == "v1.35.0"
    fields = {"capacity", "allocatable", "conditions", "addresses", "daemonEndpoints", "nodeInfo"}
    assert set(shown["status"]) == fields
    assert virtual_node(envelope(node()), CONTEXT)["spec"] == {}


def test_no_api_server_can_call_the_address_of_a_virtual_node() -> None:
    """Not even of one that was made by an earlier version: any number below this one is a port."""
    port = {"kubeletEndpoint": {"Port": 65536}}
    made = virtual_node(envelope(node()), CONTEXT)
    assert made["status"]["daemonEndpoints"] == port
    made["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": 0}}
    patch = node_status_patch(envelope(made), envelope(node()), CONTEXT, LATER)
    assert patch == {"status": {"daemonEndpoints": port}}


SERVED = msgspec.structs.replace(SHOWING, kubelet=("192.0.2.7", 10305))


def test_a_virtual_node_names_the_syncer_as_its_kubelet_if_that_serves_the_kubelet_api() -> None:
    made = virtual_node(envelope(node()), SERVED)
    assert made["status"]["addresses"] == [{"type": "InternalIP", "address": "192.0.2.7"}]
    assert made["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10305}}
    assert made["metadata"]["labels"][names.STREAMS] == "true"


@pytest.mark.parametrize(("before", "after"), [(SHOWING, SERVED), (SERVED, SHOWING)])
def test_a_virtual_node_follows_the_address_of_the_kubelet_api(
    before: TenantContext, after: TenantContext
) -> None:
    made = virtual_node(envelope(node()), before)
    made["metadata"]["uid"] = "v1"
    wanted = virtual_node(envelope(node()), after)
    status = node_status_patch(envelope(made), envelope(node()), after, LATER)
    patch = node_patch(envelope(made), envelope(node()), after)
    assert status is not None
    assert patch is not None
    patched = merge_patch(merge_patch(made, status), patch)
    for field in ("addresses", "daemonEndpoints"):
        assert patched["status"][field] == wanted["status"][field]
    assert patched["metadata"]["labels"] == wanted["metadata"]["labels"]


@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        ({"capacity": {"cpu": "4711"}}, True),
        ({"allocatable": {"cpu": "4711"}}, True),
        ({"nodeInfo": {"machineID": "forged"}}, True),
        ({"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}, True),
        ({"addresses": [{"type": "InternalIP", "address": "192.0.2.8"}]}, True),
        ({"addresses": None}, True),
        ({"conditions": []}, False),
        ({}, False),
    ],
)
def test_a_tenant_that_writes_what_a_kubelet_reports_is_noticed(change: Json, noticed: bool) -> None:
    before = virtual_node(envelope(node()), SERVED)
    after = {**before, "status": {**before["status"], **change}}
    assert kubelet_fields_changed(envelope(before), envelope(after)) is noticed


def test_a_hostname_too_long_for_a_label_is_left_out() -> None:
    body = node()
    body["metadata"]["name"] = "n" * 63
    assert "kubernetes.io/hostname" not in virtual_node(envelope(body), CONTEXT)["metadata"]["labels"]


def shown(body: Json) -> Envelope:
    created = virtual_node(envelope(body), SHOWING)
    created["metadata"]["uid"] = "v1"
    return envelope(created)


HEARTBEAT = [{**node()["status"]["conditions"][0], "lastHeartbeatTime": LATER}]
NOT_READY = [{**node()["status"]["conditions"][0], "status": "Unknown", "reason": "NodeStatusUnknown"}]


@pytest.mark.parametrize(
    ("status", "patched"),
    [
        ({}, None),
        ({"conditions": HEARTBEAT}, None),
        ({"images": []}, None),
        ({"conditions": NOT_READY}, {"conditions": [{**NOT_READY[0], "lastHeartbeatTime": LATER}]}),
        (
            {"allocatable": {"cpu": "6", "gpu": "1"}},
            {"allocatable": {"cpu": "6", "gpu": "1", "memory": None}},
        ),
        (
            {"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]},
            {
                "addresses": [
                    {"type": "InternalIP", "address": "10.0.0.2"},
                    {
                        "type": "Hostname",
                        "address": "logs-do-not-reach-the-clusters-of-your-operator.invalid",
                    },
                ]
            },
        ),
    ],
)
def test_only_material_changes_are_written(status: Json, patched: Json | None) -> None:
    v = shown(node())
    p = envelope(node(**status))
    patch = node_status_patch(v, p, SHOWING, LATER)
    assert patch == (None if patched is None else {"status": patched})
    if patch is not None:
        after = merge_patch(virtual_node(envelope(node()), SHOWING), patch)
        assert node_status_patch(envelope(after), p, SHOWING, LATER) is None


def test_cordon_and_shown_taints_are_copied_and_the_tenants_own_kept() -> None:
    v_body = virtual_node(envelope(node()), SHOWING)
    v_body["metadata"]["labels"] |= {"mine": "1", names.SUPER_CLUSTER_ID: "forged"}
    v_body["spec"]["taints"].append({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"})
    p_body = copy.deepcopy(node())
    p_body["spec"] |= {
        "unschedulable": True,
        "taints": [{"key": "gpu", "value": "a100", "effect": "NoSchedule"}],
    }
    patch = node_patch(envelope(v_body), envelope(p_body), SHOWING)
    assert patch == {
        "metadata": {"labels": {names.SUPER_CLUSTER_ID: "r1"}},
        "spec": {
            "unschedulable": True,
            "taints": [
                {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
                {"key": "gpu", "value": "a100", "effect": "NoSchedule"},
            ],
        },
    }
    after = merge_patch(v_body, patch)
    assert node_patch(envelope(after), envelope(p_body), SHOWING) is None
    assert node_patch(shown(node()), envelope(node()), SHOWING) is None


def test_a_removed_node_is_reported_once() -> None:
    before = shown(node())
    patch = node_gone_patch(before, LATER)
    assert patch is not None
    (ready,) = patch["status"]["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "Unknown", "NodeRemoved")
    after = merge_patch(virtual_node(envelope(node()), SHOWING), patch)
    after["metadata"]["uid"] = "v1"
    assert node_gone_patch(envelope(after), LATER) is None
    # When it comes back, the refresh says what it is again.
    again = node_status_patch(envelope(after), envelope(node()), SHOWING, LATER)
    assert again is not None
    assert again["status"]["conditions"][0]["status"] == "True"


def test_the_node_of_a_lost_super_cluster_is_reported_once() -> None:
    before = shown(node())
    patch = node_lost_patch(before, "no heartbeat since 12:00", LATER)
    assert patch is not None
    (ready,) = patch["status"]["conditions"]
    assert (ready["status"], ready["reason"]) == ("Unknown", "SuperClusterLost")
    assert ready["message"] == "its cluster is lost: no heartbeat since 12:00"
    after = merge_patch(virtual_node(envelope(node()), SHOWING), patch)
    assert node_lost_patch(envelope(after), "no heartbeat since 12:00", LATER) is None


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        ({"spec": {"unschedulable": True}}, [CORDONED]),
        ({"spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}}, [TAINTED]),
        ({"spec": {"taints": [{"key": "mine", "effect": "PreferNoSchedule"}]}}, [TAINTED]),
        ({"metadata": {"labels": {"disk": "ssd"}}}, [LABELLED]),
        ({"metadata": {"labels": {"kubernetes.io/os": "windows"}}}, [LABELLED]),
        (
            {
                "metadata": {"labels": {"disk": "ssd"}},
                "spec": {"unschedulable": True, "taints": [{"key": "mine", "effect": "NoSchedule"}]},
            },
            [CORDONED, TAINTED, LABELLED],
        ),
        # What has an effect, what Kubernetes writes itself, what the operator shows.
        ({"spec": {"taints": [{"key": "mine", "effect": "NoExecute"}]}}, []),
        ({"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}}, []),
        ({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}, []),
        ({"metadata": {"labels": {"beta.kubernetes.io/os": "linux"}}}, []),
        ({"metadata": {"annotations": {"note": "x"}}}, []),
    ],
)
def test_changes_of_a_virtual_node_without_effect_are_reported_once(
    change: Json, messages: list[str]
) -> None:
    plain = virtual_node(envelope(node()), CONTEXT)  # with no taint
    before, after = envelope(plain), envelope(merge_patch(plain, change))
    assert without_effect(before, after, envelope(node()), SHOWING) == messages
    assert without_effect(after, after, envelope(node()), SHOWING) == []
    assert without_effect(after, before, envelope(node()), SHOWING) == []


def test_writes_of_the_syncer_to_a_virtual_node_are_not_reported() -> None:
    old = virtual_node(envelope(node()), CONTEXT)
    body = node()
    body["spec"]["unschedulable"] = True
    body["metadata"]["labels"]["kubernetes.io/arch"] = "amd64"
    new = merge_patch(old, node_patch(envelope(old), envelope(body), SHOWING) or {})
    assert new["spec"]["unschedulable"] is True
    assert without_effect(envelope(old), envelope(new), envelope(body), SHOWING) == []


# --- What the operator chooses to show -------------------------------------------------------------------


def showing(*labels: str, taints: tuple[str, ...] = ()) -> TenantContext:
    return msgspec.structs.replace(CONTEXT, shown_nodes=ShownNodes(labels=labels, taints=taints))


def labelled(**labels: str) -> Envelope:
    body = copy.deepcopy(node())
    body["metadata"]["labels"] |= {key.replace("__", "/"): value for key, value in labels.items()}
    return envelope(body)


ZONE = "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("keys", "seen"),
    [
        ((), {}),
        ((ZONE,), {ZONE: "z"}),
        (("topology.kubernetes.io/*",), {ZONE: "z"}),
        (("kubernetes.io/*",), {}),
        (("rack", "absent"), {"rack": "7"}),
        (("*",), {}),
    ],
)
def test_chosen_labels_are_shown(keys: tuple[str, ...], seen: dict[str, str]) -> None:
    p = labelled(rack="7")
    plain = virtual_node(p, CONTEXT)["metadata"]["labels"]
    assert virtual_node(p, showing(*keys))["metadata"]["labels"] == plain | seen


def test_labels_with_a_meaning_in_the_tenant_are_never_taken_from_the_node() -> None:
    body = copy.deepcopy(node())
    body["metadata"]["labels"] |= {names.SUPER_CLUSTER_ID: "other", names.NETWORK: "other"}
    shown = showing("tenancy.x-k8s.io/*", names.NETWORK, "kubernetes.io/hostname")
    found = virtual_node(envelope(body), shown)["metadata"]["labels"]
    assert found == virtual_node(envelope(node()), CONTEXT)["metadata"]["labels"]


def test_a_node_shows_a_bounded_number_of_labels() -> None:
    many = {f"example.com__k{number:03}": "x" for number in range(200)}
    found = virtual_node(labelled(**many), showing("example.com/*"))["metadata"]["labels"]
    assert sum(key.startswith("example.com/") for key in found) == MOST_LABELS


def test_what_is_shown_no_more_goes_and_the_tenants_own_stays() -> None:
    p, before = labelled(rack="7"), showing("rack", ZONE, taints=("gpu",))
    body = virtual_node(p, before)
    body["metadata"] |= {"uid": "v1"}
    body["metadata"]["labels"]["mine"] = "1"
    assert node_patch(envelope(body), p, before) is None
    assert node_patch(envelope(body), p, CONTEXT) is None, "the settings are not known yet"
    for after, gone in ((showing(ZONE), {"rack"}), (showing(), {"rack", ZONE})):
        patch = node_patch(envelope(body), p, after)
        assert patch is not None
        now = merge_patch(body, patch)
        assert body["metadata"]["labels"].keys() - now["metadata"]["labels"].keys() == gone
        assert "taints" not in now["spec"]
        assert node_patch(envelope(now), p, after) is None
    assert names.SHOWN not in now["metadata"]["annotations"]


@pytest.mark.parametrize("value", ["", "{", "[]", '{"labels": 1}', '{"labels": ["mine"], "taints": ["x"]}'])
def test_an_annotation_that_the_tenant_writes_is_replaced(value: str) -> None:
    p, context = labelled(rack="7"), showing("rack")
    body = virtual_node(p, context)
    body["metadata"]["uid"] = "v1"
    body["metadata"]["annotations"] = {names.SHOWN: value}
    patch = node_patch(envelope(body), p, context)
    assert patch is not None
    assert node_patch(envelope(merge_patch(body, patch)), p, context) is None
