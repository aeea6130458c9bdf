"""The command line against real clusters: registration, refusals, rights of the credentials, running, removal."""

import base64
import json
import os
import re
import signal
import stat
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.testbed import Cluster, TestBed
from hack.testbed.processes import free_ports
from tests.real.waiting import eventually
from vcsync.api import names
from vcsync.api.rbac import GRANTS, Grant, Side
from vcsync.cli.command.main import main

# The time limit includes the start of the clusters.
pytestmark = pytest.mark.timeout(400)

QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota, namespace: default}
spec: {hard: {cpu: "2", memory: 4Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec:
  containers:
  - name: web
    image: web
    resources: {limits: {cpu: 100m, memory: 100Mi}}
"""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBed]:
    """Separate clusters, because these tests register and remove them."""
    directory = tmp_path_factory.mktemp("cli")
    with TestBed(supers=2, nodes=1, tenants=("acme", "umbrella"), directory=directory) as bed:
        yield bed


@dataclass
class Answer:
    """The output of a command."""

    code: int
    out: str
    err: str


Vcsync = Callable[..., Answer]


@pytest.fixture
def vcsync(bed: TestBed, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Vcsync:
    """Run a command in this process."""
    monkeypatch.setenv("VCSYNC_META", str(bed.meta.kubeconfig))

    def run(*arguments: str | Path) -> Answer:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        shown = capfd.readouterr()
        return Answer(code, shown.out, shown.err)

    return run


@pytest.fixture(scope="module")
def installed(bed: TestBed) -> Path:
    """An installed meta cluster; the folder of the roles' kubeconfigs."""
    roles = bed.directory / "roles"
    assert main(["install", "--meta", str(bed.meta.kubeconfig), "--kubeconfigs", str(roles)]) == 0
    return roles


@pytest.fixture
def r1(bed: TestBed, installed: Path, vcsync: Vcsync) -> Iterator[Cluster]:
    """A registered super cluster, removed after the test."""
    added = vcsync("super", "add", "r1", "--kubeconfig", bed.supers["r1"].kubeconfig, "--headroom", "cpu=10%")
    assert added.code == 0, added.err
    yield bed.supers["r1"]
    vcsync("super", "remove", "r1", "--force", "--kubeconfig", bed.supers["r1"].kubeconfig)


def fails(answer: Answer, code: int, *said: str) -> None:
    """Check that a command failed with one line that contains some texts."""
    assert answer.code == code, answer
    assert answer.out == ""
    assert answer.err.count("\n") == 1, answer.err
    assert answer.err.startswith("vcsync: ")
    for text in said:
        assert text in answer.err


def changed(cluster: Cluster, path: Path, old: str, new: str) -> Path:
    """Write a cluster's kubeconfig with something replaced by a pattern."""
    text = cluster.kubeconfig.read_text()
    replaced = re.sub(old, new, text)
    assert replaced != text
    path.write_text(replaced)
    return path


def secret(cluster: Cluster, namespace: str, name: str, key: str = "kubeconfig") -> bytes:
    """Read one entry of a Secret."""
    found = json.loads(cluster.kubectl("get", "secret", "-n", namespace, name, "-o", "json"))
    return base64.b64decode(found["data"][key])


# ---- install -----------------------------------------------------------------------------------------------------


def test_install_can_be_repeated_and_restores_what_was_removed(
    bed: TestBed, installed: Path, vcsync: Vcsync
) -> None:
    bed.meta.kubectl("delete", "clusterrole", "vcsync-nsscheduler")
    again = vcsync("install", "--kubeconfigs", installed)
    assert again.code == 0, again.err
    assert bed.meta.kubectl("get", "clusterrole", "vcsync-nsscheduler", "-o", "name")
    for kind in ("tenants", "virtualclusters", "superclusters", "namespaceplacements"):
        assert bed.meta.kubectl("get", kind, "-A") == ""


def test_installed_kubeconfigs_are_private_and_separate_for_each_role(bed: TestBed, installed: Path) -> None:
    assert sorted(path.name for path in installed.iterdir()) == [
        "nsscheduler.kubeconfig",
        "podscheduler.kubeconfig",
        "streams.kubeconfig",
        "syncer.kubeconfig",
        "tenants.kubeconfig",
    ]
    assert stat.S_IMODE(installed.stat().st_mode) == 0o700
    for path in installed.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        role = path.name.removesuffix(".kubeconfig")
        assert who_is(path.read_bytes()) == f"system:serviceaccount:vcsync-system:vcsync-{role}"


def test_other_commands_report_a_missing_installation(bed: TestBed, vcsync: Vcsync) -> None:
    answer = vcsync("super", "list", "--meta", bed.supers["r2"].kubeconfig)
    fails(answer, 1, "is vcsync installed there?")


# ---- rights ------------------------------------------------------------------------------------------------------


def request(kubeconfig: bytes, method: str, path: str, body: Any = None) -> Any:
    """Send one request with a kubeconfig's token."""
    import ssl  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    config = yaml.safe_load(kubeconfig)
    cluster = config["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    call = urllib.request.Request(
        cluster["server"] + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {config['users'][0]['user']['token']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(call, context=ssl.create_default_context(cadata=authority)) as answer:
        return json.load(answer)


def who_is(kubeconfig: bytes) -> str:
    """Return the user of some credentials, as the API server reports it."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = request(kubeconfig, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
    return str(answer["status"]["userInfo"]["username"])


Right = tuple[str, str, str, str]
"""Verb, group, resource, name of the object (empty: every one)."""


def rights(kubeconfig: bytes, namespace: str) -> set[Right]:
    """Return all rights in a namespace except those of every user, as the API server reports them."""
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    answer = request(kubeconfig, "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body)
    assert not answer["status"]["incomplete"]
    return {
        (verb, group, resource, name)
        for rule in answer["status"]["resourceRules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or [""]
        if not resource.startswith("selfsubject")
    }


def granted(grants: tuple[Grant, ...], namespace: str) -> set[Right]:
    """Return the rights for a namespace in the table of vcsync.api.rbac."""
    return {
        (verb, grant.group, resource, name)
        for grant in grants
        if grant.namespace in ("", namespace)
        for verb in grant.verbs
        for resource in grant.resources
        for name in grant.names or ("",)
    }


def assert_exact_rights(kubeconfig: bytes, side: Side, role: str, extra: set[Right] = frozenset()) -> None:  # type: ignore[assignment]
    for namespace in ("default", "kube-system", "kube-node-lease", names.SYSTEM_NAMESPACE):
        expected = granted(GRANTS[side, role], namespace)
        if namespace == names.SYSTEM_NAMESPACE:
            expected |= extra
        assert rights(kubeconfig, namespace) == expected, (side, role, namespace)


@pytest.mark.parametrize("role", names.META_ROLES)
def test_roles_have_exactly_their_rights_in_the_meta_cluster(installed: Path, role: str) -> None:
    assert_exact_rights((installed / f"{role}.kubeconfig").read_bytes(), "meta", role)


def test_a_syncer_has_exactly_its_rights_in_a_super_cluster(
    bed: TestBed, r1: Cluster, installed: Path
) -> None:
    stored = secret(bed.meta, "vcsync-system", "super-r1")
    assert who_is(stored) == "system:serviceaccount:vcsync-system:vcsync-syncer"
    assert_exact_rights(stored, "super", names.ROLE_SYNCER)
    own = (installed / "syncer.kubeconfig").read_bytes()
    assert_exact_rights(own, "meta", names.ROLE_SYNCER, {("get", "", "secrets", "super-r1")})


def test_streams_have_exactly_their_rights(bed: TestBed, r1: Cluster, installed: Path) -> None:
    own = (installed / "streams.kubeconfig").read_bytes()
    assert_exact_rights(own, "meta", names.ROLE_STREAMS, {("get", "", "secrets", "streams-r1")})
    stored = secret(bed.meta, "vcsync-system", "streams-r1")
    assert who_is(stored) == "system:serviceaccount:vcsync-system:vcsync-streams"
    # The syncer binds its role in tenants' namespaces only.
    for namespace in ("default", "kube-system", names.SYSTEM_NAMESPACE):
        assert rights(stored, namespace) == set()


# ---- super clusters ----------------------------------------------------------------------------------------------


def test_a_super_cluster_is_registered_listed_and_removed(bed: TestBed, r1: Cluster, vcsync: Vcsync) -> None:
    listed = json.loads(vcsync("super", "list", "-o", "json").out)
    assert [one["name"] for one in listed] == ["r1"]
    assert listed[0]["spec"]["headroom"] == {"cpu": "10%"}
    info = json.loads(r1.kubectl("get", "configmap", "-n", "kube-system", "supercluster-info", "-o", "json"))
    meta_uid = bed.meta.kubectl("get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
    assert info["data"] == {"id": "r1", "meta": meta_uid}
    removed = vcsync("super", "remove", "r1", "--kubeconfig", r1.kubeconfig)
    assert removed.code == 0, removed.err
    assert json.loads(vcsync("super", "list", "-o", "json").out) == []
    assert bed.meta.kubectl("get", "secret", "-n", "vcsync-system", "--ignore-not-found", "super-r1") == ""
    for kind in ("clusterrole", "clusterrolebinding"):
        assert "vcsync" not in r1.kubectl("get", kind, "-o", "name")
    assert (
        r1.kubectl("get", "configmap", "-n", "kube-system", "--ignore-not-found", "supercluster-info") == ""
    )
    again = vcsync(
        "super", "add", "r1", "--kubeconfig", r1.kubeconfig
    )  # its namespace may still be terminating
    assert again.code == 0, again.err


def test_an_id_is_unique(bed: TestBed, r1: Cluster, vcsync: Vcsync) -> None:
    answer = vcsync("super", "add", "r1", "--kubeconfig", bed.supers["r2"].kubeconfig)
    fails(answer, 1, "r1 is registered already")
    nothing = bed.supers["r2"].kubectl("get", "namespace", "--ignore-not-found", "vcsync-system")
    assert nothing == ""


def test_a_cluster_cannot_be_in_the_pool_under_two_ids(bed: TestBed, r1: Cluster, vcsync: Vcsync) -> None:
    answer = vcsync("super", "add", "other", "--kubeconfig", r1.kubeconfig)
    fails(answer, 1, "leads to super cluster 'r1'", "once only")


def test_the_meta_cluster_is_refused_as_super_cluster_and_not_changed(
    bed: TestBed, installed: Path, vcsync: Vcsync
) -> None:
    read = ("get", "clusterrole", "vcsync-syncer", "-o", "json")
    before = bed.meta.kubectl(*read)
    fails(vcsync("super", "add", "r9", "--kubeconfig", bed.meta.kubeconfig), 1, "leads to the meta cluster")
    assert bed.meta.kubectl(*read) == before
    assert bed.meta.kubectl("get", "superclusters") == ""
    info = bed.meta.kubectl(
        "get", "configmap", "-n", "kube-system", "--ignore-not-found", "supercluster-info"
    )
    assert info == ""


def test_a_cluster_is_recognized_without_its_info_config_map(
    bed: TestBed, r1: Cluster, vcsync: Vcsync
) -> None:
    r1.kubectl("delete", "configmap", "-n", "kube-system", "supercluster-info")
    for kind in ("super", "tenant"):
        answer = vcsync(kind, "add", "other", "--kubeconfig", r1.kubeconfig)
        fails(answer, 1, "leads to super cluster 'r1'")
    answer = vcsync("super", "remove", "r1", "--kubeconfig", bed.supers["r2"].kubeconfig)
    fails(answer, 1, "another cluster than super cluster 'r1'", "nothing was removed")
    answer = vcsync("super", "remove", "r1", "--kubeconfig", bed.meta.kubeconfig)
    fails(answer, 1, "leads to the meta cluster", "nothing was removed")
    assert bed.meta.kubectl("get", "namespace", "vcsync-system", "-o", "name")
    assert "r1" in vcsync("super", "list").out


def test_removal_keeps_objects_that_were_not_created_for_the_super_cluster(
    bed: TestBed, r1: Cluster, vcsync: Vcsync
) -> None:
    mark = "tenancy.x-k8s.io/made-for-super-cluster"
    for object_ in (("namespace", "vcsync-system"), ("clusterrole", "vcsync-syncer")):
        r1.kubectl("label", *object_, f"{mark}-")
    removed = vcsync("super", "remove", "r1", "--kubeconfig", r1.kubeconfig)
    assert removed.code == 0, removed.err
    assert "left alone" in removed.out
    assert "ClusterRole vcsync-syncer, Namespace vcsync-system" in removed.out
    assert r1.kubectl("get", "namespace", "vcsync-system", "-o", "name")
    assert r1.kubectl("get", "clusterrole", "vcsync-syncer", "-o", "name")
    assert "vcsync" not in r1.kubectl("get", "clusterrolebinding", "-o", "name")
    assert (
        r1.kubectl("get", "serviceaccount", "-n", "vcsync-system", "--ignore-not-found", "vcsync-syncer")
        == ""
    )
    r1.kubectl("delete", "namespace/vcsync-system", "clusterrole/vcsync-syncer")


def test_a_cluster_cannot_be_in_two_pools(bed: TestBed, installed: Path, vcsync: Vcsync) -> None:
    r2 = bed.supers["r2"]
    r2.kubectl(
        "create",
        "configmap",
        "-n",
        "kube-system",
        "supercluster-info",
        "--from-literal=id=r2",
        "--from-literal=meta=x",
    )
    try:
        fails(
            vcsync("super", "add", "r2", "--kubeconfig", r2.kubeconfig), 1, "belongs to another meta cluster"
        )
    finally:
        r2.kubectl("delete", "configmap", "-n", "kube-system", "supercluster-info")


def test_the_registration_of_an_existing_id_is_completed(
    bed: TestBed, installed: Path, vcsync: Vcsync
) -> None:
    r2 = bed.supers["r2"]
    r2.kubectl("create", "configmap", "-n", "kube-system", "supercluster-info", "--from-literal=id=r2")
    added = vcsync("super", "add", "r2", "--kubeconfig", r2.certificate_kubeconfig)
    assert added.code == 0, added.err
    info = json.loads(r2.kubectl("get", "configmap", "-n", "kube-system", "supercluster-info", "-o", "json"))
    assert set(info["data"]) == {"id", "meta"}
    assert vcsync("super", "remove", "r2", "--kubeconfig", r2.kubeconfig).code == 0


def test_a_kubeconfig_can_be_stored_as_given(bed: TestBed, installed: Path, vcsync: Vcsync) -> None:
    r2 = bed.supers["r2"]
    refused = vcsync("super", "add", "r2", "--as-given", "--kubeconfig", r2.certificate_kubeconfig)
    fails(refused, 2, "works on this machine only")
    added = vcsync("super", "add", "r2", "--as-given", "--kubeconfig", r2.kubeconfig)
    assert added.code == 0, added.err
    assert secret(bed.meta, "vcsync-system", "super-r2") == r2.kubeconfig.read_bytes()
    removed = vcsync("super", "remove", "r2")
    assert removed.code == 0
    assert "kubectl delete configmap -n kube-system supercluster-info" in removed.out
    r2.kubectl("delete", "configmap", "-n", "kube-system", "supercluster-info")


def test_the_wrong_kubeconfig_removes_nothing(bed: TestBed, r1: Cluster, vcsync: Vcsync) -> None:
    r2 = bed.supers["r2"]
    r2.kubectl("create", "configmap", "-n", "kube-system", "supercluster-info", "--from-literal=id=r2")
    answer = vcsync("super", "remove", "r1", "--kubeconfig", r2.kubeconfig)
    fails(answer, 1, "leads to super cluster 'r2', not to 'r1'", "nothing was removed")
    assert "r1" in vcsync("super", "list").out
    r2.kubectl("delete", "configmap", "-n", "kube-system", "supercluster-info")


def test_each_kind_of_unusable_kubeconfig_has_its_own_message(
    bed: TestBed, installed: Path, vcsync: Vcsync, tmp_path: Path
) -> None:
    r2, other = bed.supers["r2"], tmp_path / "kubeconfig"
    add = ("super", "add", "r2", "--kubeconfig")
    fails(vcsync(*add, tmp_path / "none"), 2, "cannot read", "No such file")
    other.write_text("clusters: [")
    fails(vcsync(*add, other), 2, "not YAML")
    fails(
        vcsync(*add, changed(r2, other, r"127\.0\.0\.1:\d+", "127.0.0.1:1")),
        1,
        "cannot connect",
        "is the server running",
    )
    fails(vcsync(*add, changed(r2, other, '"token": *"[^"]*"', '"token": "x"')), 1, "401", "renew them")
    umbrella = yaml.safe_load(bed.tenants["umbrella"].kubeconfig.read_text())
    authority = umbrella["clusters"][0]["cluster"]["certificate-authority-data"]
    wrong_authority = changed(
        r2, other, '"certificate-authority-data": *"[^"]*"', f'"certificate-authority-data": "{authority}"'
    )
    fails(vcsync(*add, wrong_authority), 1, "r2:")
    assert vcsync("super", "list", "-o", "json").out.strip() == "[]"


def test_a_network_id_is_set_shown_and_taken_away(r1: Cluster, vcsync: Vcsync) -> None:
    assert vcsync("super", "set", "r1", "--network-id", "lab").code == 0
    assert "NETWORK" in vcsync("super", "list", "-o", "wide").out
    [found] = json.loads(vcsync("super", "list", "-o", "json").out)
    assert found["spec"]["networkId"] == "lab"
    assert vcsync("super", "set", "r1", "--network-id", "").code == 0
    [found] = json.loads(vcsync("super", "list", "-o", "json").out)
    assert not found["spec"].get("networkId")
    refused = vcsync("super", "set", "r1", "--network-id", "Not A Label")
    assert refused.code == 2
    assert "DNS label" in refused.err
    assert vcsync("super", "set", "r1").code == 2


def test_cordon_drain_and_uncordon_change_the_spec(r1: Cluster, vcsync: Vcsync) -> None:
    assert vcsync("super", "cordon", "r1").code == 0
    assert "cordoned" in vcsync("super", "list").out
    assert vcsync("super", "drain", "r1", "--wait").out.splitlines()[-1] == "super cluster r1 is empty"
    assert "drains" in vcsync("super", "list").out
    assert vcsync("super", "uncordon", "r1").code == 0
    assert "open" in vcsync("super", "list").out
    assert "drains" in vcsync("super", "drain", "r1").out
    assert "has not reported progress" in vcsync("super", "drain", "r1", "--status").out
    assert json.loads(vcsync("super", "drain", "r1", "--status", "-o", "json").out)["drain"] is True
    assert "gets no new slices" in vcsync("super", "undrain", "r1", "--keep-cordon").out
    assert "cordoned" in vcsync("super", "list").out
    assert "does not drain" in vcsync("super", "drain", "r1", "--status").out
    assert "gets slices again" in vcsync("super", "undrain", "r1").out
    assert "open" in vcsync("super", "list").out
    for wrong in (("--status", "--wait"), ("--force", "--eviction-seconds", "5"), ("-o", "json")):
        assert vcsync("super", "drain", "r1", *wrong).code == 2
    assert "open" in vcsync("super", "list").out
    for command in ("cordon", "uncordon", "drain", "undrain", "remove"):
        fails(vcsync("super", command, "r7"), 1, "super cluster r7 does not exist")


# ---- tenants -----------------------------------------------------------------------------------------------------


def virtual_cluster(bed: TestBed, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        bed.meta.kubectl("get", "virtualcluster", "-n", "vcsync", name, "-o", "json")
    )
    return found


def test_a_tenant_is_registered_with_separate_credentials_for_every_role(
    bed: TestBed, installed: Path, vcsync: Vcsync
) -> None:
    acme = bed.tenants["acme"]
    options = (
        "--weight",
        "2",
        "--default-quota",
        "cpu=2,memory=4Gi",
        "--quota",
        "cpu=10",
        "--api-endpoint",
        "api.acme:6443",
        "--service-cidr",
        "10.64.0.0/20",
    )
    added = vcsync("tenant", "add", "acme", "--kubeconfig", acme.kubeconfig, *options)
    assert added.code == 0, added.err
    vc = virtual_cluster(bed, "acme")
    root = vc["status"]["clusterNamespace"]
    assert root in added.out
    assert re.fullmatch(r"vcsync-[0-9a-f]{6}-acme", root)
    assert vc["status"]["phase"] == "Running"
    assert vc["metadata"]["finalizers"] == [names.VIRTUAL_CLUSTER_DRAIN_FINALIZER]
    assert vc["spec"]["weight"] == 2
    assert vc["spec"]["apiEndpoint"] == {"host": "api.acme", "port": 6443}
    namespace = json.loads(bed.meta.kubectl("get", "namespace", root, "-o", "json"))
    assert namespace["metadata"]["annotations"] == {
        "tenancy.x-k8s.io/vcname": "acme",
        "tenancy.x-k8s.io/vcnamespace": "vcsync",
        "tenancy.x-k8s.io/vcuid": vc["metadata"]["uid"],
        "tenancy.x-k8s.io/vcrootns": "true",
    }
    for role in names.ROLES:
        stored = secret(bed.meta, root, f"kubeconfig-{role}")
        assert who_is(stored) == f"system:serviceaccount:vcsync-system:vcsync-{role}"
        assert_exact_rights(stored, "tenant", role)
    listed = json.loads(vcsync("tenant", "list", "-o", "json").out)
    assert [(one["name"], one["spec"]["weight"]) for one in listed] == [("acme", 2)]
    fails(vcsync("tenant", "add", "acme", "--kubeconfig", acme.kubeconfig), 1, "acme is registered already")
    assert vc["spec"]["serviceCidr"] == "10.64.0.0/20"
    changed = vcsync("tenant", "set", "acme", "--service-cidr", "10.64.16.0/20")
    assert "serviceCidr 10.64.0.0/20, now 10.64.16.0/20" in changed.out
    assert virtual_cluster(bed, "acme")["spec"]["serviceCidr"] == "10.64.16.0/20"
    umbrella = bed.tenants["umbrella"].kubeconfig
    fails(
        vcsync("tenant", "add", "umbrella", "--kubeconfig", umbrella, "--service-cidr", "10.64.0.0/16"),
        1,
        "--service-cidr 10.64.0.0/16: tenant acme has 10.64.16.0/20",
    )
    fails(
        vcsync("tenant", "add", "twin", "--kubeconfig", acme.kubeconfig),
        1,
        "leads to the control plane of tenant acme",
    )
    fails(
        vcsync("super", "add", "r9", "--kubeconfig", acme.kubeconfig),
        1,
        "leads to the control plane of tenant acme",
    )
    assert (
        acme.kubectl("get", "configmap", "-n", "kube-system", "--ignore-not-found", "supercluster-info") == ""
    )
    remove_by_hand(bed, vcsync, "acme")


def remove_by_hand(bed: TestBed, vcsync: Vcsync, tenant: str) -> None:
    """Remove an empty tenant without a running nsscheduler, by doing its work."""
    stuck = vcsync("tenant", "remove", tenant, "--timeout", "1")
    assert stuck.code == 1
    assert "waiting for nsscheduler" in stuck.err
    assert virtual_cluster(bed, tenant)["metadata"]["deletionTimestamp"]
    assert "Removing" in vcsync("tenant", "list").out
    fails(
        vcsync("tenant", "add", tenant, "--kubeconfig", bed.tenants[tenant].kubeconfig),
        1,
        f"{tenant} is being removed",
    )
    bed.meta.kubectl(
        "patch",
        "virtualcluster",
        "-n",
        "vcsync",
        tenant,
        "--type=merge",
        "-p",
        '{"metadata":{"finalizers":[]}}',
    )
    assert vcsync("tenant", "remove", tenant).code == 0
    assert json.loads(vcsync("tenant", "list", "-o", "json").out) == []
    assert bed.meta.kubectl("get", "tenants", "-o", "name") == ""
    fails(vcsync("tenant", "remove", tenant), 1, f"tenant {tenant} is not in the pool")


def test_an_interrupted_registration_is_completed(bed: TestBed, installed: Path, vcsync: Vcsync) -> None:
    umbrella = bed.tenants["umbrella"]
    uid = umbrella.kubectl("get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
    unfinished = {
        "apiVersion": names.API_VERSION,
        "kind": "VirtualCluster",
        "metadata": {
            "name": "umbrella",
            "namespace": "vcsync",
            "annotations": {names.CONTROL_PLANE_UID: uid},
            "finalizers": [names.VIRTUAL_CLUSTER_DRAIN_FINALIZER],
        },
        "spec": {"tenant": "umbrella"},
    }
    bed.meta.kubectl("create", "-f", "-", input=json.dumps(unfinished))
    added = vcsync(
        "tenant", "add", "umbrella", "--kubeconfig", umbrella.kubeconfig, "--as-given", "--weight", "3"
    )
    assert added.code == 0, added.err
    vc = virtual_cluster(bed, "umbrella")
    assert (vc["spec"]["weight"], vc["status"]["phase"]) == (3, "Running")
    stored = secret(bed.meta, vc["status"]["clusterNamespace"], "admin-kubeconfig", "admin-kubeconfig")
    assert stored == umbrella.kubeconfig.read_bytes()
    remove_by_hand(bed, vcsync, "umbrella")


def test_a_tenant_whose_control_plane_fills_no_token_secrets_is_served_and_renewed(
    bed: TestBed, installed: Path, vcsync: Vcsync
) -> None:
    umbrella, acme = bed.tenants["umbrella"], bed.tenants["acme"]
    where = ("umbrella", "--kubeconfig", umbrella.kubeconfig)
    root = ""

    def stored(role: str) -> bytes:
        return secret(bed.meta, root, f"kubeconfig-{role}")

    umbrella.kill("kube-controller-manager")
    try:
        added = vcsync("tenant", "add", *where)
        assert added.code == 0, added.err
        root = virtual_cluster(bed, "umbrella")["status"]["clusterNamespace"]
        assert "waiting at most 15 s for umbrella to fill 3 token Secrets" in added.err
        assert added.err.count("umbrella fills no token Secrets: has it a kube-controller-manager") == 1
        assert "run 'vcsync tenant renew umbrella --kubeconfig FILE' before" in added.err
        before = {role: stored(role) for role in names.ROLES}
        renewed = vcsync("tenant", "renew", *where)
        assert renewed.code == 0, renewed.err
        for role in names.ROLES:
            assert stored(role) != before[role]
            assert who_is(stored(role)) == f"system:serviceaccount:vcsync-system:vcsync-{role}"
    finally:
        umbrella.start("kube-controller-manager")
    elsewhere = vcsync("tenant", "renew", "umbrella", "--kubeconfig", acme.kubeconfig)
    fails(
        elsewhere, 1, "leads to a control plane that is not tenant umbrella's", "no credentials were renewed"
    )
    lasting = vcsync("tenant", "renew", *where)
    assert (lasting.code, lasting.err) == (0, ""), lasting.err
    revoked = stored("syncer")
    assert vcsync("tenant", "renew", *where, "--revoke").code == 0
    assert who_is(stored("syncer")) == "system:serviceaccount:vcsync-system:vcsync-syncer"
    eventually(lambda: is_refused(revoked))
    fails(vcsync("tenant", "renew", "nobody", *where[1:]), 1, "tenant nobody is not in the pool")
    remove_by_hand(bed, vcsync, "umbrella")


def is_refused(kubeconfig: bytes) -> bool:
    """Return whether the API server refuses some credentials; it caches tokens for seconds."""
    try:
        who_is(kubeconfig)
    except urllib.error.HTTPError as error:
        return error.code == 401
    return False


def test_a_syncer_gets_new_credentials_for_its_super_cluster(
    bed: TestBed, r1: Cluster, vcsync: Vcsync
) -> None:
    before = secret(bed.meta, "vcsync-system", "super-r1")
    renewed = vcsync("super", "renew", "r1", "--kubeconfig", r1.kubeconfig, "--revoke")
    assert renewed.code == 0, renewed.err
    after = secret(bed.meta, "vcsync-system", "super-r1")
    assert who_is(after) == "system:serviceaccount:vcsync-system:vcsync-syncer"
    eventually(lambda: is_refused(before))
    elsewhere = vcsync("super", "renew", "r1", "--kubeconfig", bed.supers["r2"].kubeconfig)
    fails(elsewhere, 1, "another cluster than super cluster 'r1'", "no credentials were renewed")
    fails(vcsync("super", "renew", "r7", "--kubeconfig", r1.kubeconfig), 1, "super cluster r7 does not exist")
    assert secret(bed.meta, "vcsync-system", "super-r1") == after


def test_a_server_that_is_not_a_control_plane_is_refused(bed: TestBed, r1: Cluster, vcsync: Vcsync) -> None:
    add = ("tenant", "add", "acme", "--kubeconfig")
    fails(vcsync(*add, bed.meta.kubeconfig), 1, "leads to the meta cluster")
    fails(vcsync(*add, r1.kubeconfig), 1, "leads to super cluster 'r1'")
    assert bed.meta.kubectl("get", "virtualclusters", "-A") == ""


# ---- all roles ---------------------------------------------------------------------------------------------------


@dataclass
class Roles:
    """A running `vcsync run all`."""

    process: subprocess.Popen[bytes]
    endpoint: str
    log: Path


@pytest.fixture
def roles(bed: TestBed, installed: Path, r1: Cluster, tmp_path: Path) -> Iterator[Roles]:
    """Run every role with its own credentials."""
    with running_all(installed, tmp_path / "vcsync.log") as started:
        yield started


@contextmanager
def running_all(installed: Path, log: Path) -> Iterator[Roles]:
    """Run `vcsync run all` until the block ends."""
    endpoint = f"127.0.0.1:{free_ports(1)[0]}"
    command = (
        sys.executable,
        "-m",
        "vcsync",
        "run",
        "all",
        "--kubeconfigs",
        installed,
        "--listen",
        endpoint,
    )
    with log.open("wb") as output:
        process = subprocess.Popen(command, stderr=output, stdout=output)
    try:
        yield Roles(process, endpoint, log)
    finally:
        # A graceful end releases the leases, so that the roles of the next test acquire them immediately.
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_a_tenant_from_registration_to_removal(
    bed: TestBed, roles: Roles, r1: Cluster, vcsync: Vcsync
) -> None:
    acme = bed.tenants["acme"]
    added = vcsync("tenant", "add", "acme", "--kubeconfig", acme.kubeconfig)
    assert added.code == 0, added.err
    acme.kubectl("apply", "-f", "-", input=QUOTA)
    phase = ("get", "pod", "web", "-o", "jsonpath={.status.phase}")
    eventually(lambda: acme.kubectl(*phase) == "Running")

    shown = vcsync("status", "--endpoint", roles.endpoint)
    assert shown.code == 0, shown.err
    assert re.search(r"acme +default +cpu=2,memory=4Gi +1 +r1=1 +- +Scheduled", shown.out)
    assert re.search(r"syncer/r1 +yes", shown.out)
    document = json.loads(vcsync("status", "--endpoint", roles.endpoint, "-o", "json").out)
    assert set(document["roles"]) == {"nsscheduler", "podscheduler", "pool", "syncer/r1", "tenants"}
    assert document["namespaces"][0]["status"]["placements"] == {"r1": 1}

    story = vcsync("explain", "pod", "acme/default/web", "--endpoint", roles.endpoint)
    assert "Pod acme/default/web is Running on node node-0 of super cluster r1." in story.out
    assert "1 of them is on super cluster r1." in vcsync("explain", "namespace", "acme/default").out
    fails(vcsync("explain", "pod", "acme/default/none"), 1, "has no Pod default/none")
    fails(vcsync("explain", "namespace", "acme/none"), 1, "has no namespace none")

    held = vcsync("super", "remove", "r1")
    fails(held, 1, "still holds 1 namespace", "/default", "vcsync super drain r1 --wait")
    nowhere = vcsync("super", "drain", "r1", "--wait", "--timeout", "3")
    assert nowhere.code == 1
    assert "still holds 1 namespace" in nowhere.err
    assert vcsync("super", "uncordon", "r1").code == 0

    removed = vcsync("tenant", "remove", "acme", "--timeout", "90")
    assert removed.code == 0, removed.err
    assert removed.out.splitlines()[-1] == "tenant acme is removed"
    eventually(lambda: "acme" not in r1.kubectl("get", "namespaces", "-o", "name"))
    assert (
        acme.kubectl("get", "pod", "web", "-o", "name").strip() == "pod/web"
    )  # the control plane stays as it is

    assert vcsync("super", "remove", "r1", "--kubeconfig", r1.kubeconfig).code == 0
    eventually(lambda: "syncer/r1" not in vcsync("status", "--endpoint", roles.endpoint).out)


def test_sigterm_ends_all_roles_and_frees_their_leases(bed: TestBed, roles: Roles, vcsync: Vcsync) -> None:
    def holders() -> list[str]:
        leases = json.loads(bed.meta.kubectl("get", "leases", "-n", "vcsync-system", "-o", "json"))["items"]
        return [
            lease["spec"].get("holderIdentity", "") for lease in leases if lease["spec"].get("holderIdentity")
        ]

    eventually(lambda: len(holders()) == 4)
    roles.process.send_signal(signal.SIGTERM)
    assert roles.process.wait(timeout=60) == 0, roles.log.read_text()
    assert holders() == []


def test_successors_of_killed_roles_do_not_wait_for_their_leases(
    bed: TestBed, roles: Roles, installed: Path, tmp_path: Path
) -> None:
    def holders() -> list[str]:
        leases = json.loads(bed.meta.kubectl("get", "leases", "-n", "vcsync-system", "-o", "json"))["items"]
        return [lease["spec"].get("holderIdentity") or "" for lease in leases]

    eventually(lambda: len([holder for holder in holders() if holder]) == 4)
    roles.process.kill()
    roles.process.wait()
    (killed,) = set(holders())
    with running_all(installed, tmp_path / "successor.log") as successor:
        eventually(lambda: len(set(holders())) == 1 and killed not in holders())
        eventually(lambda: {"namespace scheduler began", "pod scheduler began"} <= {*facts(successor.log)})
        times = facts(successor.log)
    begin = times["all roles start"]
    print(*(f"{at - begin} {fact}" for fact, at in times.items()), sep="\n")
    order = list(times)
    taken = [fact for fact in order if fact.startswith("lease.holder_has_ended")]
    assert len(taken) == 4
    for fact in taken:
        assert order.index(fact) < order.index(fact.replace("holder_has_ended", "acquired"))
    assert "started without heartbeat" not in times


def facts(log: Path) -> dict[str, datetime]:
    """Return event -> time of its first entry in a log, in order; events of a lease contain its name."""
    found: dict[str, datetime] = {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        fact = f"{entry['event']} {entry.get('lease', '')}".strip()
        found.setdefault(fact, datetime.fromisoformat(entry["timestamp"]))
    return found


def test_a_role_that_cannot_start_reports_the_reason(bed: TestBed, installed: Path, tmp_path: Path) -> None:
    command = (
        sys.executable,
        "-m",
        "vcsync",
        "run",
        "syncer",
        "--super-cluster",
        "nobody",
        "--listen",
        "127.0.0.1:0",
    )
    done = subprocess.run(
        command,
        env={**os.environ, "VCSYNC_META": str(installed / "syncer.kubeconfig")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "super cluster nobody does not exist" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
