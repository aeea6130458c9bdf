"""A real API server accepts our CRDs, roles, policies and samples."""

import json
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.testbed import Cluster, KubectlError, TestBed
from tests.real.waiting import eventually
from vcsync.api import names
from vcsync.api.conditions import set_condition
from vcsync.api.crd import DEFINITIONS, crds
from vcsync.api.objects import NamespacePlacement, SuperCluster, VirtualCluster, status_patch
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS, TENANTS, VIRTUAL_CLUSTERS
from vcsync.api.specs import NamespacePlacementStatus, NodeCounts, SuperClusterStatus
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import parse

CONFIG = Path(__file__).resolve().parents[2] / "config"
NOW = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def meta(testbed: TestBed) -> Cluster:
    """The meta cluster with CRDs, roles and policies installed from config/."""
    testbed.meta.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(CONFIG / "crd"))
    testbed.meta.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", *CRD_NAMES)
    testbed.meta.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(CONFIG / "rbac/meta"))
    return testbed.meta


@pytest.fixture
def namespace(meta: Cluster) -> Iterator[str]:
    name = f"api-{uuid.uuid4().hex[:8]}"
    meta.kubectl("create", "namespace", name)
    yield name
    meta.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def made(meta: Cluster) -> Iterator[Callable[[Resource, dict[str, Any], str], dict[str, Any]]]:
    """Create objects that are deleted after the test."""
    paths: list[str] = []

    def make(resource: Resource, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        code, answer = meta.call("POST", resource.path(namespace=namespace), body)
        assert code == 201, answer
        paths.append(resource.path(namespace=namespace, name=answer["metadata"]["name"]))
        assert isinstance(answer, dict)
        return answer

    yield make
    for path in paths:
        meta.call("PATCH", path, {"metadata": {"finalizers": None}})
        meta.call("DELETE", path)


CRD_NAMES = [definition["metadata"]["name"] for definition in crds()]


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def object_of(resource: Resource, name: str, spec: Any, **more: Any) -> dict[str, Any]:
    metadata = {"name": name}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": spec,
        **more,
    }


def placement(name: str, **spec: Any) -> dict[str, Any]:
    reference = {"namespace": "vcsync", "name": "acme", "uid": "1-2"}
    whole = {"virtualCluster": reference, "tenant": "key", "namespace": name, "namespaceUID": "3-4", **spec}
    return object_of(NAMESPACE_PLACEMENTS, name, whole)


def refusal(meta: Cluster, resource: Resource, body: dict[str, Any]) -> str:
    """Return the message with which the API server refuses an object; nothing is stored."""
    namespace = "default" if resource.namespaced else ""
    code, answer = meta.call("POST", f"{resource.path(namespace=namespace)}?dryRun=All", body)
    assert code == 422, answer
    return str(answer["message"])


@pytest.mark.parametrize("name", CRD_NAMES)
def test_the_api_server_accepts_every_crd_without_a_warning(meta: Cluster, name: str) -> None:
    crd = json.loads(meta.kubectl("get", "crd", name, "-o", "json"))
    conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions


WRONG = [
    (TENANTS, "te", {"weight": 0}, "spec.weight"),
    (TENANTS, "te", {"weight": "2"}, "spec.weight"),
    (TENANTS, "te", {"quota": {"cpu": "lots"}}, "spec.quota.cpu"),
    (TENANTS, "te", {"quota": {"cpu": -1}}, "spec.quota.cpu"),
    (TENANTS, "te", {"quota": {"cpu": "-1"}}, "spec.quota.cpu"),
    (TENANTS, "te", {"quota": {f"r{n}": 1 for n in range(65)}}, "spec.quota"),
    (TENANTS, "te", {"controlPlane": {}}, "spec.controlPlane: .*exactly one of embedded, external"),
    (TENANTS, "te", {"controlPlane": {"embedded": {}, "clusterVersion": "a"}}, "exactly one of embedded, external"),
    (TENANTS, "te", {"controlPlane": {"external": {}}}, "spec.controlPlane.external.kubeconfigSecretRef"),
    (TENANTS, "te", {"limits": {"readBurst": -1}}, "spec.limits.readBurst"),
    (TENANTS, "te", {"isolation": {"podSecurity": "none"}}, "spec.isolation.podSecurity"),
    (TENANTS, "te.st", {}, "metadata.name becomes part of namespace names"),
    (TENANTS, "t" * 50, {}, "of at most 49 characters"),
    (TENANTS, "system", {}, "metadata.name all and system are reserved"),
    (TENANTS, "te", {"quota": {"cpus": "1"}}, "spec.quota takes cpu, memory, pods only"),
    (TENANTS, "te", {"defaultQuota": {"pods": 5}}, "spec.defaultQuota takes cpu, memory only"),
    (TENANTS, "te", {"sliceSize": {"cpu": "1"}}, "spec.sliceSize: .*needs both cpu and memory"),
    (TENANTS, "te", None, "spec: Required|spec in body must be"),
    (VIRTUAL_CLUSTERS, "vc", {"tenant": "A"}, "spec.tenant"),
    (VIRTUAL_CLUSTERS, "vc", {"weight": 1001}, "spec.weight"),
    (VIRTUAL_CLUSTERS, "vc", {"clusterDomain": "-x"}, "spec.clusterDomain"),
    (VIRTUAL_CLUSTERS, "vc", {"opaqueMetaPrefixes": ["a", "a"]}, r"spec.opaqueMetaPrefixes\[1\]"),
    (VIRTUAL_CLUSTERS, "vc", {"opaqueMetaPrefixes": [""]}, r"spec.opaqueMetaPrefixes\[0\]"),
    (VIRTUAL_CLUSTERS, "vc", {"apiEndpoint": {"port": 443}}, "spec.apiEndpoint.host"),
    (VIRTUAL_CLUSTERS, "vc", {"apiEndpoint": {"host": "a", "port": 0}}, "spec.apiEndpoint.port"),
    (VIRTUAL_CLUSTERS, "vc", {"apiEndpoint": {"host": "https://a"}}, "spec.apiEndpoint.host"),
    (VIRTUAL_CLUSTERS, "vc", {"sliceSize": {"cpu": "1"}}, "spec.sliceSize: .*needs both cpu and memory"),
    (VIRTUAL_CLUSTERS, "vc", {"sliceSize": {"cpu": "0", "memory": "1Gi"}}, "spec.sliceSize.cpu"),
    (VIRTUAL_CLUSTERS, "vc", {"sliceSize": {"cpu": 0, "memory": "1Gi"}}, "spec.sliceSize.cpu"),
    (VIRTUAL_CLUSTERS, "vc", {"defaultQuota": {"memory": "1K"}}, "spec.defaultQuota.memory"),
    (VIRTUAL_CLUSTERS, "vc", {"quota": {"cpus": "1"}}, "spec.quota takes cpu, memory, pods only"),
    (VIRTUAL_CLUSTERS, "vc", {"quota": {"count/pods": "1"}}, "spec.quota takes cpu, memory, pods only"),
    (VIRTUAL_CLUSTERS, "vc", {"quota": {"cpu": "lots"}}, "spec.quota.cpu"),
    (VIRTUAL_CLUSTERS, "vc", {"quota": {"cpu": "-1"}}, "spec.quota.cpu"),
    (VIRTUAL_CLUSTERS, "vc", {"defaultQuota": {"pods": 5}}, "spec.defaultQuota takes cpu, memory only"),
    (VIRTUAL_CLUSTERS, "vc", {"sliceSize": {"cpu": 1, "memory": "1Gi", "gpu": 1}}, "spec.sliceSize takes cpu, memory"),
    (VIRTUAL_CLUSTERS, "vc", {"podPolicy": {"hostPath": "allow"}}, "spec.podPolicy.hostPath"),
    (VIRTUAL_CLUSTERS, "vc", {"podPolicy": {"annotations": ["*"]}}, r"spec.podPolicy.annotations\[0\]"),
    (VIRTUAL_CLUSTERS, "vc", {"podPolicy": {"annotations": ["io.x*"]}}, "spec.podPolicy.annotations takes no key"),
    (VIRTUAL_CLUSTERS, "vc", {"servicePolicy": {"labels": ["io.x"]}}, "spec.servicePolicy.labels takes no key"),
    (VIRTUAL_CLUSTERS, "vc", {"priorityClasses": {"high": "A"}}, "spec.priorityClasses.high"),
    (VIRTUAL_CLUSTERS, "vc", {"heartbeatSeconds": 1}, "spec.heartbeatSeconds"),
    (VIRTUAL_CLUSTERS, "vc", {"virtualNodeLingerSeconds": -1}, "spec.virtualNodeLingerSeconds"),
    (VIRTUAL_CLUSTERS, "v.c", {}, "metadata.name becomes part of namespace names"),
    (VIRTUAL_CLUSTERS, "v" * 55, {}, "at most 54 characters"),
    (SUPER_CLUSTERS, "r1", {}, "spec.id: Required"),
    (SUPER_CLUSTERS, "r1", {"id": "r2"}, "spec.id: .*must equal metadata.name.*set spec.id to the object's name"),
    (SUPER_CLUSTERS, "r.1", {"id": "r.1"}, "spec.id"),
    (SUPER_CLUSTERS, "r" * 58, {"id": "r" * 58}, "spec.id"),
    (SUPER_CLUSTERS, "r1", {"id": "r1", "headroom": {"cpu": "101%"}}, "spec.headroom.cpu"),
    (SUPER_CLUSTERS, "r1", {"id": "r1", "headroom": {"cpu": "ten"}}, "spec.headroom.cpu"),
    (SUPER_CLUSTERS, "r1", {"id": "r1", "headroom": {"ram": "10%"}}, "spec.headroom takes cpu, memory, pods only"),
    (SUPER_CLUSTERS, "r1", {"id": "r1", "overcommit": {"pod": "200%"}}, "spec.overcommit takes cpu, memory, pods only"),
    (SUPER_CLUSTERS, "r1", {"id": "r1", "prices": {"cpu": 0.03}}, "spec.prices.cpu"),
    (SUPER_CLUSTERS, "r1", {"id": "r1", "prices": {"cpu": "-1"}}, "spec.prices.cpu"),
    (SUPER_CLUSTERS, "r1", {"id": "r1", "taints": [{"key": "a", "effect": "Never"}]}, r"spec.taints\[0\].effect"),
    (SUPER_CLUSTERS, "r1", {"id": "r1", "taints": [{"key": "a", "effect": "NoSchedule"}] * 2}, r"spec.taints\[1\]"),
    (SUPER_CLUSTERS, "r1", {"id": "r1", "kubeconfigSecretRef": {}}, "spec.kubeconfigSecretRef.name"),
    (SUPER_CLUSTERS, "r1", {"id": "r1", "cordoned": "yes"}, "spec.cordoned"),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "name", "spec", "complaint"), WRONG)
def test_an_invalid_object_is_refused_and_the_field_named(
    meta: Cluster, resource: Resource, name: str, spec: Any, complaint: str
) -> None:
    assert_complains(refusal(meta, resource, object_of(resource, name, spec)), complaint)


def assert_complains(message: str, complaint: str) -> None:
    assert re.search(complaint, message), message


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (
            placement("a", namespace="b"),
            "spec.namespace: .*must equal metadata.name: give the object the name",
        ),
        (placement("a", pins={"r1": -1}), "spec.pins.r1"),
        (placement("a", pins={f"r{n}": 1 for n in range(257)}), "spec.pins"),
        (placement("a", slices=1001), "spec.slices"),
        (placement("a", slices=-1), "spec.slices"),
        (placement("a", virtualCluster={"name": "x", "uid": "y"}), "spec.virtualCluster.namespace"),
        (placement("a", quota={"cpu": "2 cores"}), "spec.quota.cpu"),
    ],
)
def test_an_invalid_placement_is_refused_and_the_field_named(
    meta: Cluster, body: dict[str, Any], complaint: str
) -> None:
    assert_complains(refusal(meta, NAMESPACE_PLACEMENTS, body), complaint)


QUANTITIES = ["0", "+1", "1.", ".5", "100m", "1.5Gi", "2k", "3M", "4G", "5T", "6P", "7E", "1Ki", "1Ti", "1Pi", "1Ei",
              "1e3", "1E3", "1e-3", "5u", "5n", 0, 12]  # fmt: skip


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_every_form_of_quantity_is_accepted(meta: Cluster, quantity: str | int) -> None:
    spec = {"quota": {"cpu": quantity}}
    body = object_of(VIRTUAL_CLUSTERS, "vc", spec)
    code, answer = meta.call("POST", f"{VIRTUAL_CLUSTERS.path(namespace='default')}?dryRun=All", body)
    assert code == 201, answer


Made = Callable[..., dict[str, Any]]


def read(meta: Cluster, resource: Resource, name: str, namespace: str = "") -> Any:
    code, answer = meta.call("GET", resource.path(namespace=namespace, name=name))
    assert code == 200, answer
    return parse(json.dumps(answer).encode())


def test_absent_fields_get_their_defaults(meta: Cluster, namespace: str, made: Made) -> None:
    stored = made(VIRTUAL_CLUSTERS, object_of(VIRTUAL_CLUSTERS, "vc", {}), namespace)["spec"]
    assert (stored["weight"], stored["heartbeatSeconds"], stored["virtualNodeLingerSeconds"]) == (1, 20, 120)
    assert set(stored["podPolicy"].values()) == {"Refuse"}
    vc = VirtualCluster.from_envelope(read(meta, VIRTUAL_CLUSTERS, "vc", namespace))
    assert vc.spec == VirtualCluster(name="vc").spec


def test_a_virtual_cluster_of_virtualcluster_stays_valid(meta: Cluster, namespace: str, made: Made) -> None:
    spec = {
        "clusterVersionName": "cv-sample-np",
        "clusterDomain": "cluster.local",
        "pkiExpireDays": 365,
        "opaqueMetaPrefixes": ["tenancy.x-k8s.io"],
        "transparentMetaPrefixes": ["k8s.net.status"],
        "serviceCidr": "10.32.0.0/16",
    }
    made(VIRTUAL_CLUSTERS, object_of(VIRTUAL_CLUSTERS, "vc-sample-1", spec), namespace)
    path = VIRTUAL_CLUSTERS.path(namespace=namespace, name="vc-sample-1", subresource="status")
    condition = {
        "status": "True",
        "lastTransitionTime": NOW,
        "reason": "TenantControlPlaneRunning",
        "message": "x",
    }
    status = {
        "phase": "Running",
        "clusterNamespace": "default-532c0e-vc-sample-1",
        "reason": "TenantControlPlaneRunning",
        "message": "tenant control plane is running",
        "conditions": [condition, condition | {"reason": "ClusterCreating"}],
    }
    code, answer = meta.call("PATCH", path, {"status": status})
    assert code == 200, answer
    assert answer["status"] == status
    for change, complaint in [
        ({"phase": None}, "status.phase cannot be removed"),
        (
            {"clusterNamespace": "other"},
            "status.clusterNamespace is part of the names of the tenant's objects",
        ),
        ({"clusterNamespace": None}, "status.clusterNamespace is part of the names of the tenant's objects"),
        ({"phase": "Broken"}, "status.phase"),
    ]:
        code, answer = meta.call("PATCH", path, {"status": change})
        assert code == 422, answer
        assert complaint in answer["message"]


def test_only_the_subresource_writes_the_status(meta: Cluster, made: Made) -> None:
    name = unique("sc")
    stored = made(SUPER_CLUSTERS, object_of(SUPER_CLUSTERS, name, {"id": name}, status={"version": "v1"}))
    assert "status" not in stored
    status = SuperClusterStatus(
        allocatable={"cpu": "8", "memory": "32Gi"},
        free={"cpu": "7", "memory": "31Gi"},
        nodes=NodeCounts(ready=2, total=3),
        heartbeat_time=NOW,
        conditions=set_condition((), "Ready", status=True, reason="NodesReady", message="", now=NOW),
        version="v1.36.3",
    )
    patch = status_patch(SuperClusterStatus(), status, resource_version=stored["metadata"]["resourceVersion"])
    path = SUPER_CLUSTERS.path(name=name, subresource="status")
    code, answer = meta.call("PATCH", path, patch)
    assert code == 200, answer
    assert SuperCluster.from_envelope(read(meta, SUPER_CLUSTERS, name)).status == status
    assert meta.call("PATCH", path, patch)[0] == 409
    code, answer = meta.call("PATCH", path, {"spec": {"cordoned": True}})
    assert code == 200
    assert answer["spec"]["cordoned"] is False


def test_a_status_patch_leaves_exactly_the_new_placements(meta: Cluster, namespace: str, made: Made) -> None:
    made(NAMESPACE_PLACEMENTS, placement("default", slices=3), namespace)
    path = NAMESPACE_PLACEMENTS.path(namespace=namespace, name="default", subresource="status")
    before = NamespacePlacementStatus(placements={"r1": 2, "r2": 1})
    after = NamespacePlacementStatus(placements={"r1": 2}, waiting=1)
    assert meta.call("PATCH", path, status_patch(NamespacePlacementStatus(), before))[0] == 200
    assert meta.call("PATCH", path, status_patch(before, after))[0] == 200
    read_back = NamespacePlacement.from_envelope(read(meta, NAMESPACE_PLACEMENTS, "default", namespace))
    assert read_back.status == after


def test_two_conditions_of_one_type_are_refused(meta: Cluster, made: Made) -> None:
    name = unique("sc")
    made(SUPER_CLUSTERS, object_of(SUPER_CLUSTERS, name, {"id": name}))
    condition = {"type": "Ready", "status": "True", "reason": "Up", "lastTransitionTime": NOW}
    path = SUPER_CLUSTERS.path(name=name, subresource="status")
    code, answer = meta.call("PATCH", path, {"status": {"conditions": [condition, condition]}})
    assert code == 422
    assert "status.conditions[1]" in answer["message"]


def test_identities_cannot_change(meta: Cluster, namespace: str, made: Made) -> None:
    name = unique("sc")
    made(SUPER_CLUSTERS, object_of(SUPER_CLUSTERS, name, {"id": name}))
    code, answer = meta.call("PATCH", SUPER_CLUSTERS.path(name=name), {"spec": {"id": "other"}})
    assert code == 422
    assert "spec.id must equal metadata.name and cannot change" in answer["message"]
    made(NAMESPACE_PLACEMENTS, placement("default"), namespace)
    path = NAMESPACE_PLACEMENTS.path(namespace=namespace, name="default")
    code, answer = meta.call("PATCH", path, {"spec": {"tenant": "other"}})
    assert code == 422
    assert "spec.tenant cannot change" in answer["message"]


def test_the_finalizer_of_the_longest_id_is_accepted(meta: Cluster, namespace: str, made: Made) -> None:
    made(NAMESPACE_PLACEMENTS, placement("default"), namespace)
    finalizers = [names.drain_finalizer("r" * names.MAX_SUPER_ID_LENGTH)]
    path = NAMESPACE_PLACEMENTS.path(namespace=namespace, name="default")
    code, answer = meta.call("PATCH", path, {"metadata": {"finalizers": finalizers}})
    assert code == 200, answer


def test_kubectl_prints_the_columns_of_our_kinds(meta: Cluster, namespace: str, made: Made) -> None:
    name = unique("sc")
    made(SUPER_CLUSTERS, object_of(SUPER_CLUSTERS, name, {"id": name, "cordoned": True}))
    status = SuperClusterStatus(
        allocatable={"cpu": "8", "memory": "32Gi"},
        free={"cpu": "7500m", "memory": "31Gi"},
        nodes=NodeCounts(ready=2, total=3),
        conditions=set_condition((), "Reachable", status=True, reason="Answers", message="", now=NOW),
    )
    path = SUPER_CLUSTERS.path(name=name, subresource="status")
    assert meta.call("PATCH", path, status_patch(SuperClusterStatus(), status))[0] == 200
    assert columns(meta, "super", name) == {
        "NAME": name, "REACHABLE": "True", "READY": "", "NODES": "2", "CPU": "8", "FREECPU": "7500m",
        "MEMORY": "32Gi", "FREEMEMORY": "31Gi", "CORDONED": "true", "DRAIN": "false",
    }  # fmt: skip

    made(NAMESPACE_PLACEMENTS, placement("default", slices=3), namespace)
    placed = NamespacePlacementStatus(
        placements={"r1": 2},
        waiting=1,
        conditions=set_condition((), "Placed", status=False, reason="Waiting", message="", now=NOW),
    )
    path = NAMESPACE_PLACEMENTS.path(namespace=namespace, name="default", subresource="status")
    assert meta.call("PATCH", path, status_patch(NamespacePlacementStatus(), placed))[0] == 200
    assert columns(meta, "npl", "default", "-n", namespace) == {
        "NAME": "default", "PLACED": "False", "SLICES": "3", "WAITING": "1", "PLACEMENTS": '{"r1":2}',
    }  # fmt: skip


def columns(meta: Cluster, *arguments: str) -> dict[str, str]:
    """Return what `kubectl get` prints of one object by column, without its age."""
    head, line = meta.kubectl("get", *arguments).splitlines()
    starts = [0, *(index + 1 for index in range(1, len(head) - 1) if head[index] == " " != head[index + 1])]
    ends = [*starts[1:], None]
    cells = {
        head[start:end].strip(): line[start:end].strip() for start, end in zip(starts, ends, strict=True)
    }
    cells.pop("AGE")
    return cells


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.resource.kind)
def test_short_names_select_the_resource(meta: Cluster, definition: Any) -> None:
    resource = definition.resource
    for short_name in definition.short_names:
        shown = meta.kubectl("get", f"{short_name}.{names.GROUP}", "-A", "-o", "json")
        assert json.loads(shown)["kind"] == "List"
    listed = meta.kubectl("api-resources", "--categories=vcsync", "-o", "name").split()
    assert f"{resource.plural}.{names.GROUP}" in listed


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("virtualclusters.spec.podPolicy.hostPID", "spec.hostPID"),
        ("superclusters.spec.headroom", "Capacity to keep free"),
        ("namespaceplacements.status.placements", "Number of slices on each super cluster"),
        ("tenants.spec.weight", "Share of the syncers' and the API server's work"),
    ],
)
def test_kubectl_explains_fields(meta: Cluster, field: str, words: str) -> None:
    assert words in meta.kubectl("explain", field, f"--api-version={names.API_VERSION}")


@pytest.mark.parametrize("sample", ["tenant", "virtualcluster", "supercluster"])
def test_samples_are_accepted_with_all_fields(meta: Cluster, sample: str) -> None:
    file = CONFIG / f"samples/{sample}.yaml"
    meta.kubectl("create", "--dry-run=server", "--validate=strict", "-f", str(file))


def test_a_tenant_accepts_the_walkthrough(testbed: TestBed) -> None:
    file = CONFIG / "samples/walkthrough.yaml"
    testbed.tenants["acme"].kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(file))


@pytest.mark.parametrize("components", [[], ["placement-webhook"]], ids=["plain", "placement webhook"])
def test_deployments_are_accepted_with_all_fields_and_meet_the_restricted_standard(
    meta: Cluster, tmp_path: Path, components: list[str]
) -> None:
    folder = tmp_path / "config"
    shutil.copytree(CONFIG, folder)
    with (folder / "deploy/kustomization.yaml").open("a") as file:
        file.write(json.dumps({"components": components})[1:-1] + "\n")
    meta.kubectl(
        "label",
        "namespace",
        names.SYSTEM_NAMESPACE,
        "pod-security.kubernetes.io/warn=restricted",
        "--overwrite",
    )
    try:
        rendered = meta.kubectl("kustomize", str(folder / "deploy"))
        arguments = (
            "apply",
            "--server-side",
            "--dry-run=server",
            "--validate=strict",
            "--warnings-as-errors",
        )
        shown = meta.kubectl(*arguments, "--force-conflicts", "-f", "-", input=rendered)
    finally:
        meta.kubectl("label", "namespace", names.SYSTEM_NAMESPACE, "pod-security.kubernetes.io/warn-")
    assert "deployment.apps/vcsync-syncer-r1" in shown
    assert (f"endpointslice.discovery.k8s.io/{names.PLACEMENT_SERVICE}" in shown) == bool(components)
    [scheduler] = [
        each
        for each in yaml.safe_load_all(rendered)
        if (each["kind"], each["metadata"]["name"]) == ("Deployment", "vcsync-podscheduler")
    ]
    options = scheduler["spec"]["template"]["spec"]["containers"][0]["args"]
    assert any("--placement-webhook-endpoint" in each for each in options) == bool(components)


# --- roles --------------------------------------------------------------------------------------------------


def account(role: str) -> str:
    return f"--as=system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(role)}"


def may(cluster: Cluster, role: str, *question: str) -> bool:
    try:
        return cluster.kubectl("auth", "can-i", *question, account(role)).strip() == "yes"
    except KubectlError:
        return False


@pytest.mark.parametrize(
    ("role", "question", "answer"),
    [
        ("syncer", ("get", "secrets/kubeconfig-syncer", "-n", "default"), True),
        ("syncer", ("get", "secrets/kubeconfig-nsscheduler", "-n", "default"), False),
        ("syncer", ("list", "secrets", "-n", "default"), False),
        ("syncer", ("patch", "configmaps", "-n", "vcsync-usage"), True),
        ("syncer", ("patch", "configmaps", "-n", "vcsync-drift"), True),
        ("syncer", ("delete", "configmaps", "-n", "vcsync-drift"), False),
        ("syncer", ("patch", "configmaps", "-n", "vcsync-system"), False),
        ("syncer", ("patch", f"superclusters.{names.GROUP}", "--subresource=status"), True),
        ("syncer", ("patch", f"superclusters.{names.GROUP}"), False),
        ("syncer", ("get", "namespaces/kube-system"), True),
        ("syncer", ("get", "namespaces/default"), False),
        ("syncer", ("create", "leases", "-n", names.SYSTEM_NAMESPACE), True),
        ("syncer", ("create", "leases", "-n", "default"), False),
        ("nsscheduler", ("patch", f"namespaceplacements.{names.GROUP}", "--subresource=status", "-A"), True),
        ("nsscheduler", ("get", "secrets/kubeconfig-nsscheduler", "-n", "default"), True),
        ("nsscheduler", ("delete", "namespaces"), True),
        ("nsscheduler", ("list", "namespaces"), False),
        ("nsscheduler", ("patch", "namespaces"), False),
        ("syncer", ("delete", "namespaces"), False),
        ("podscheduler", ("watch", f"namespaceplacements.{names.GROUP}", "-A"), True),
        ("podscheduler", ("patch", f"namespaceplacements.{names.GROUP}", "-A"), False),
        ("podscheduler", ("get", "secrets/kubeconfig-syncer", "-n", "default"), False),
    ],
)
def test_roles_in_the_meta_cluster(meta: Cluster, role: str, question: tuple[str, ...], answer: bool) -> None:
    assert may(meta, role, *question) is answer


def test_a_syncer_may_remove_its_finalizer_and_change_nothing_else(
    meta: Cluster, namespace: str, made: Made
) -> None:
    mine, other = names.drain_finalizer("r1"), names.drain_finalizer("r2")
    body = placement("default")
    body["metadata"]["finalizers"] = [mine, other]
    made(NAMESPACE_PLACEMENTS, body, namespace)

    def patch(change: dict[str, Any], *more: str) -> str:
        target = ("patch", "npl", "default", "-n", namespace, "--type=merge", "-p", json.dumps(change))
        try:
            return meta.kubectl(*target, account(names.ROLE_SYNCER), *more)
        except KubectlError as error:
            return str(error)

    # A policy takes effect a moment after it was made.
    eventually(lambda: "may only remove finalizers" in patch({"spec": {"slices": 5}}, "--dry-run=server"))
    for change in (
        {"spec": {"pins": {"r1": 1}}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"finalizers": [mine, other, "example.com/more"]}},
    ):
        assert "may only remove finalizers of namespaceplacements" in patch(change)
    assert "forbidden" in patch({"status": {"waiting": 1}}, "--subresource=status")
    assert "patched" in patch({"metadata": {"finalizers": [other]}})
    assert read(meta, NAMESPACE_PLACEMENTS, "default", namespace).finalizers == (other,)


def test_a_namespace_scheduler_may_only_delete_root_namespaces_of_tenants(meta: Cluster) -> None:
    def delete(name: str, *more: str) -> str:
        try:
            return meta.kubectl("delete", "namespace", name, account(names.ROLE_NSSCHEDULER), *more)
        except KubectlError as error:
            return str(error)

    for name in ("of-others", "root-of-a-tenant"):
        meta.kubectl("create", "namespace", name)
    meta.kubectl("annotate", "namespace", "root-of-a-tenant", f"{names.VC_ROOT_NAMESPACE}={names.TRUE}")
    # A policy takes effect a moment after it was made.
    eventually(
        lambda: "may only delete root namespaces of tenants" in delete("of-others", "--dry-run=server")
    )
    assert "may only delete root namespaces of tenants" in delete("of-others")
    assert "deleted" in delete("root-of-a-tenant", "--wait=false")
    assert "forbidden" in delete("kube-public")
    meta.kubectl("delete", "namespace", "of-others", "--wait=false")


def test_a_namespace_scheduler_may_only_delete_tenants_created_for_a_virtual_cluster(
    meta: Cluster, made: Made
) -> None:
    for name in ("by-hand", "of-a-virtual-cluster"):
        made(TENANTS, object_of(TENANTS, name, {}))
    meta.kubectl("annotate", "tenants", "of-a-virtual-cluster", f"{names.VC_UID}=1-2-3")

    def delete(name: str, *more: str) -> str:
        try:
            return meta.kubectl("delete", "tenants", name, account(names.ROLE_NSSCHEDULER), *more)
        except KubectlError as error:
            return str(error)

    # A policy takes effect a moment after it was made.
    refusal = "may only delete Tenants that were made for a VirtualCluster"
    eventually(lambda: refusal in delete("by-hand", "--dry-run=server"))
    assert refusal in delete("by-hand")
    assert "deleted" in delete("of-a-virtual-cluster", "--wait=false")


def test_a_namespace_scheduler_may_only_record_its_observations_in_virtual_clusters(
    meta: Cluster, namespace: str, made: Made
) -> None:
    made(VIRTUAL_CLUSTERS, object_of(VIRTUAL_CLUSTERS, "vc", {}), namespace)

    path = VIRTUAL_CLUSTERS.path(namespace=namespace, name="vc", subresource="status")
    user = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(names.ROLE_NSSCHEDULER)}"

    def patch(status: dict[str, Any], query: str = "") -> str:
        with meta.session() as session:  # kubectl reads a subresource before it patches it
            session._headers["Impersonate-User"] = user
            code, answer = session.call("PATCH", path + query, {"status": status})
        return "patched" if code == 200 else str(answer["message"])

    refused = "may only change conditions and record controlPlaneUID in the status of virtualclusters"
    # A policy takes effect a moment after it was made.
    eventually(lambda: refused in patch({"phase": "Running"}, "?dryRun=All"))
    for change in ({"phase": "Error"}, {"clusterNamespace": "of-another"}, {"message": "x"}, {"reason": "X"}):
        assert refused in patch(change)
    assert patch({"conditions": [{"type": "Braked", "status": "True"}]}) == "patched"
    assert patch({"controlPlaneUID": "first"}) == "patched"
    assert "vcsync tenant accept" in patch({"controlPlaneUID": "second"})


def test_only_the_namespace_scheduler_records_failures_and_it_changes_nothing_else(
    meta: Cluster, made: Made
) -> None:
    made(SUPER_CLUSTERS, object_of(SUPER_CLUSTERS, "recorded", {"id": "recorded"}))
    path = SUPER_CLUSTERS.path(name="recorded", subresource="status")

    def patch(role: str, status: dict[str, Any], query: str = "") -> str:
        with meta.session() as session:
            account = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(role)}"
            session._headers["Impersonate-User"] = account
            code, answer = session.call("PATCH", path + query, {"status": status})
        return "patched" if code == 200 else str(answer["message"])

    record = {"failure": {"state": "Lost", "since": "2026-01-01T00:00:00Z", "failures": 1}}
    beat = {"heartbeatTime": "2026-01-01T00:00:00Z", "nodes": {"ready": 1, "total": 1}}
    scheduler, syncer = names.ROLE_NSSCHEDULER, names.ROLE_SYNCER
    # A policy takes effect a moment after it was made.
    eventually(lambda: "may only record failures" in patch(scheduler, beat, "?dryRun=All"))
    eventually(lambda: "may not change the record of failures" in patch(syncer, record, "?dryRun=All"))
    for change in ({"conditions": []} | beat, {"version": "v1"}, {"reports": {"1/1": []}}, record | beat):
        assert "may only record failures" in patch(scheduler, change)
    assert patch(scheduler, record) == "patched"
    assert patch(syncer, beat) == "patched"
    assert "may not change the record of failures" in patch(syncer, {"failure": None})
    assert "forbidden" in patch(names.ROLE_PODSCHEDULER, record)
    assert patch(scheduler, {"failure": {"state": "Ready"}}) == "patched"
    assert "status.failure.state" in patch(scheduler, {"failure": {"state": "Gone"}})


def test_a_syncer_releases_a_placement_that_is_being_deleted(
    meta: Cluster, namespace: str, made: Made
) -> None:
    body = placement("default")
    body["metadata"]["finalizers"] = [names.drain_finalizer("r1")]
    made(NAMESPACE_PLACEMENTS, body, namespace)
    path = NAMESPACE_PLACEMENTS.path(namespace=namespace, name="default")
    assert meta.call("DELETE", path)[0] == 200
    change = json.dumps({"metadata": {"finalizers": []}})
    meta.kubectl(
        "patch", "npl", "default", "-n", namespace, "--type=merge", "-p", change, account(names.ROLE_SYNCER)
    )
    assert meta.call("GET", path)[0] == 404


@pytest.mark.parametrize(
    ("side", "cluster", "role", "question", "answer"),
    [
        ("super", "r1", "syncer", ("create", "pods", "-A"), True),
        ("super", "r1", "syncer", ("patch", "pods", "--subresource=resize", "-A"), True),
        ("super", "r1", "syncer", ("create", "pods", "--subresource=exec", "-A"), False),
        ("super", "r1", "syncer", ("create", "serviceaccounts", "--subresource=token", "-A"), False),
        ("super", "r1", "syncer", ("patch", "nodes"), False),
        ("super", "r1", "syncer", ("create", "clusterrolebindings"), False),
        ("tenant", "umbrella", "syncer", ("create", "pods", "--subresource=binding", "-A"), True),
        ("tenant", "umbrella", "syncer", ("create", "serviceaccounts", "--subresource=token", "-A"), True),
        ("tenant", "umbrella", "syncer", ("create", "pods", "-A"), False),
        ("tenant", "umbrella", "syncer", ("update", "leases", "-n", "kube-node-lease"), True),
        ("tenant", "umbrella", "syncer", ("update", "leases", "-n", "default"), False),
        ("tenant", "umbrella", "nsscheduler", ("patch", "namespaces"), True),
        ("tenant", "umbrella", "nsscheduler", ("list", "pods", "-A"), True),
        ("tenant", "umbrella", "nsscheduler", ("delete", "pods", "-A"), False),
        ("tenant", "umbrella", "nsscheduler", ("get", "secrets", "-A"), False),
        ("tenant", "umbrella", "podscheduler", ("patch", "pods", "-A"), True),
        ("tenant", "umbrella", "podscheduler", ("get", "secrets", "-A"), False),
    ],
)
def test_roles_in_super_clusters_and_tenants(
    testbed: TestBed, side: str, cluster: str, role: str, question: tuple[str, ...], answer: bool
) -> None:
    target = testbed.clusters[cluster]
    target.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(CONFIG / "rbac" / side))
    assert may(target, role, *question) is answer
