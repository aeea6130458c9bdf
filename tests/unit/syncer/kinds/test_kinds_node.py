"""Virtual nodes: what is shown, what is not, and when it is refreshed."""

import copy
import json
from typing import Any

import msgspec
import pytest
from kinds_bench import CONTEXT

from vcsync.api import names
from vcsync.kube.envelope import Envelope, parse
from vcsync.kube.patches import merge_patch
from vcsync.syncer.kinds.node import node_gone_patch, node_patch, node_status_patch, virtual_node

Json = dict[str, Any]
LATER = "2026-05-01T13:00:00Z"
SHOWING = msgspec.structs.replace(CONTEXT, node_taint_keys=frozenset({"gpu"}))


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


def test_a_virtual_node_shows_the_node_but_not_its_identity() -> None:
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
    }
    assert shown["spec"] == {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    assert shown["status"]["addresses"] == [
        {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "Hostname", "address": "node-1.r1"},
    ]
    info = shown["status"]["nodeInfo"]
    assert (info["machineID"], info["systemUUID"], info["bootID"]) == ("", "", "")
    assert info["kubeletVersion"] == "v1.35.0"
    assert set(shown["status"]) == {"capacity", "allocatable", "conditions", "addresses", "nodeInfo"}
    assert virtual_node(envelope(node()), CONTEXT)["spec"] == {}


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
                    {"type": "Hostname", "address": "node-1.r1"},
                ]
            },
        ),
    ],
)
def test_only_material_changes_are_written(status: Json, patched: Json | None) -> None:
    v = shown(node())
    p = envelope(node(**status))
    patch = node_status_patch(v, p, LATER)
    assert patch == (None if patched is None else {"status": patched})
    if patch is not None:
        after = merge_patch(virtual_node(envelope(node()), SHOWING), patch)
        assert node_status_patch(envelope(after), p, LATER) is None


def test_cordon_and_shown_taints_follow_and_the_tenants_own_stay() -> None:
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


def test_a_node_that_is_removed_is_said_to_be_once() -> None:
    before = shown(node())
    patch = node_gone_patch(before, LATER)
    assert patch is not None
    (ready,) = patch["status"]["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "Unknown", "NodeRemoved")
    after = merge_patch(virtual_node(envelope(node()), SHOWING), patch)
    after["metadata"]["uid"] = "v1"
    assert node_gone_patch(envelope(after), LATER) is None
    # When it comes back, the refresh says what it is again.
    again = node_status_patch(envelope(after), envelope(node()), LATER)
    assert again is not None
    assert again["status"]["conditions"][0]["status"] == "True"
