"""Labels and annotations of tenants that programs of super clusters obey do not reach them, and do for the tenant's own Pods."""

from __future__ import annotations

import json

import pytest
from hollow_kubelet import environment
from pool_kit import Json, Pool, Space, annotation, container, pod

from tests.real.waiting import eventually
from vcsync.api import names
from vcsync.syncer.kinds import keys

ADDRESS = "metallb.io/loadBalancerIPs"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
RUNTIME = "io.kubernetes.cri-o.Devices"
INJECT = "sidecar.istio.io/inject"


def service(selector: dict[str, str], **annotations: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {"selector": selector, "ports": [{"port": 80}]},
    }


def reports(space: Space, kind: str) -> list[Json]:
    listed = json.loads(space.kubectl("get", "events", "-o", "json"))["items"]
    return [
        each
        for each in listed
        if each["reason"] == "AnnotationsLeftOut" and each["involvedObject"]["kind"] == kind
    ]


@pytest.mark.core
def test_commands_to_programs_of_super_clusters_stay_in_the_tenant(pool: Pool, space: Space) -> None:
    variables = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in (
            ("NETWORKS", f"metadata.annotations['{NETWORKS}']"),
            ("INJECT", f"metadata.labels['{INJECT}']"),
        )
    ]
    body = pod("web", labels={"app": "web", INJECT: "true"}, containers=[container(env=variables)])
    body["metadata"]["annotations"] = {NETWORKS: "kube-system/host", RUNTIME: "/dev/kmsg"}
    space.apply(body)
    space.apply(service({"app": "web", INJECT: "true"}, **{ADDRESS: "10.0.0.1"}))
    space.running("web")
    super_id, below = space.below("web")
    eventually(lambda: space.there(super_id, "services", "web") is not None)
    balanced = space.there(super_id, "services", "web") or {}
    assert [annotation(below, key) for key in (NETWORKS, RUNTIME)] == [None, None]
    assert annotation(balanced, ADDRESS) is None
    assert INJECT not in below["metadata"]["labels"]
    # The Service selects the Pod, and the containers see what the tenant wrote.
    assert balanced["spec"]["selector"].items() <= below["metadata"]["labels"].items()
    shown = environment(pool.supers[super_id], below)
    assert (shown["NETWORKS"], shown["INJECT"]) == ("kube-system/host", "true")
    for kind, key in (("Pod", NETWORKS), ("Service", ADDRESS)):
        eventually(lambda kind=kind, key=key: any(key in each["message"] for each in reports(space, kind)))


def test_the_operator_allows_annotations_and_what_others_write_stays(pool: Pool, space: Space) -> None:
    space.apply(service({"app": "web"}, **{ADDRESS: "10.0.0.1", "example.com/x": "1"}))
    eventually(lambda: space.there("r1", "services", "web") is not None)
    where = ("-n", space.super_name, "service", "web")
    pool.supers["r1"].kubectl("annotate", *where, "metallb.io/ip-allocated-from-pool=public")
    try:
        pool.configure("acme", servicePolicy={"annotations": [ADDRESS]})
        eventually(lambda: annotation(space.there("r1", "services", "web"), ADDRESS) == "10.0.0.1")
    finally:
        pool.configure("acme", servicePolicy={"annotations": None})
    eventually(lambda: annotation(space.there("r1", "services", "web"), ADDRESS) is None)
    found = space.there("r1", "services", "web")
    assert annotation(found, "metallb.io/ip-allocated-from-pool") == "public"
    assert annotation(found, "example.com/x") is None


def test_a_copy_of_an_earlier_version_is_corrected(pool: Pool, space: Space) -> None:
    space.apply(service({"app": "web", INJECT: "true"}, **{ADDRESS: "10.0.0.1"}))
    eventually(lambda: space.there("r1", "services", "web") is not None)
    uid = (space.there("r1", "services", "web") or {})["metadata"]["uid"]
    earlier = {
        "metadata": {
            "annotations": {names.COPIED_ANNOTATIONS: None, names.LEFT_OUT: None, ADDRESS: "10.0.0.1"}
        },
        "spec": {"selector": {INJECT: "true", keys.renamed(INJECT): None}},
    }
    where = ("-n", space.super_name, "service", "web")
    pool.supers["r1"].kubectl("patch", *where, "--type=merge", "-p", json.dumps(earlier))
    eventually(lambda: annotation(space.there("r1", "services", "web"), ADDRESS) is None)
    found = space.there("r1", "services", "web") or {}
    assert found["metadata"]["uid"] == uid
    assert found["spec"]["selector"] == {"app": "web", keys.renamed(INJECT): "true"}
