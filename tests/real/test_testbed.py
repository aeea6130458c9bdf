"""The test bed itself: every server answers, hollow nodes run Pods, no process remains."""

import asyncio
import json
import subprocess
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from hack.audit.read import Kubeconfig
from hack.chaos.witness import PODS, Witness
from hack.testbed import Cluster, KubectlError, TestBed, TestBedError, faults
from hack.testbed.binaries import locate
from hack.testbed.faultproxy import FaultProxy
from tests.real.waiting import eventually, soon

CLUSTERS = ("meta", "r1", "r2", "acme", "umbrella")
Kubectl = Callable[..., str]


def pod(name: str) -> dict[str, object]:
    container = {"name": "main", "image": "example.org/app:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]},
    }


@pytest.fixture
def namespace(testbed: TestBed) -> Iterator[Callable[[Cluster], str]]:
    """Create a namespace in a cluster, which is deleted after the test."""
    made: list[tuple[Cluster, str]] = []

    def make(cluster: Cluster) -> str:
        name = f"test-{uuid.uuid4().hex[:8]}"
        cluster.kubectl("create", "namespace", name)
        eventually(
            lambda: cluster.call("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default")[0] == 200
        )
        made.append((cluster, name))
        return name

    yield make
    for cluster, name in made:
        cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.parametrize("name", CLUSTERS)
def test_each_server_is_ready(testbed: TestBed, name: str) -> None:
    assert testbed.clusters[name].call("GET", "/readyz") == (200, "ok")


def test_namespaces_can_be_deleted_in_every_cluster(testbed: TestBed) -> None:
    name = f"test-{uuid.uuid4().hex[:8]}"
    path = f"/api/v1/namespaces/{name}"
    for cluster in testbed.clusters.values():
        cluster.kubectl("create", "namespace", name)
        cluster.kubectl("delete", "namespace", name, "--wait=false")
    for cluster in testbed.clusters.values():
        eventually(lambda: cluster.call("GET", path)[0] == 404)  # noqa: B023 - called at once


def test_clusters_do_not_see_one_another(testbed: TestBed, namespace: Callable[[Cluster], str]) -> None:
    acme, umbrella = testbed.tenants["acme"], testbed.tenants["umbrella"]
    made = namespace(acme)
    assert umbrella.call("GET", f"/api/v1/namespaces/{made}")[0] == 404
    stranger = acme.kubeconfig.read_text().replace(acme.url, umbrella.url)
    (testbed.directory / "stranger.kubeconfig").write_text(stranger)
    with pytest.raises(KubectlError, match="certificate signed by unknown authority"):
        umbrella.kubectl("get", "nodes", f"--kubeconfig={testbed.directory}/stranger.kubeconfig")


def copy_of(name: str) -> dict[str, object]:
    annotations = {"cluster": "acme", "namespace": "shop", "uid": f"uid-{name}"}
    metadata = {
        "name": name,
        "annotations": {f"tenancy.x-k8s.io/{key}": text for key, text in annotations.items()},
    }
    return pod(name) | {"metadata": metadata}


async def test_resource_versions_tell_whether_copies_were_there_at_the_same_moment(
    testbed: TestBed, namespace: Callable[[Cluster], str]
) -> None:
    places = {name: await asyncio.to_thread(namespace, testbed.supers[name]) for name in ("r1", "r2")}
    watched = {name: Kubeconfig(name, testbed.clusters[name].kubeconfig) for name in ("meta", "r1", "r2")}
    witness = Witness(watched.pop("meta"), {}, watched, (PODS,))

    async def call(method: str, super_id: str, name: str) -> int:
        path = f"/api/v1/namespaces/{places[super_id]}/pods" + (f"/{name}" if method != "POST" else "")
        body = copy_of(name) if method == "POST" else None
        return (await asyncio.to_thread(testbed.supers[super_id].call, method, path, body))[0]

    async def run(super_id: str, name: str) -> None:
        count = witness.copies.judged() + 1
        assert await call("POST", super_id, name) == 201

        async def seen() -> bool:
            return witness.copies.judged() == count

        await soon(seen)

    async def gone() -> bool:
        return await call("GET", "r1", "moves") == 404

    watching = asyncio.create_task(witness.run())
    try:
        await run("r1", "doubles")
        await run("r1", "moves")
        await call("DELETE", "r1", "moves")
        await soon(gone)
        await run("r2", "moves")
        await run("r2", "doubles")
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    [finding] = witness.copies.twice()
    assert (finding.super_cluster, finding.name, finding.field) == ("r1, r2", "doubles", "metadata.uid")


def test_only_a_scheduler_that_ended_itself_is_restarted(testbed: TestBed) -> None:
    r1 = testbed.supers["r1"]
    before = r1.pids["kube-scheduler"]
    r1.kill("kube-scheduler")
    assert testbed.revive() == []
    with r1.log("kube-scheduler").open("a") as log:
        log.write("Scheduler cache is corrupted and can badly affect scheduling decisions\n")
    (said,) = testbed.revive()
    assert said.startswith("kube-scheduler of r1: ")
    assert r1.pids["kube-scheduler"] != before
    assert testbed.revive() == []


def test_a_pod_runs_on_a_hollow_node_until_it_is_deleted(
    testbed: TestBed, namespace: Callable[[Cluster], str]
) -> None:
    r1 = testbed.supers["r1"]
    path = f"/api/v1/namespaces/{namespace(r1)}/pods"
    assert r1.call("POST", path, pod("web"))[0] == 201
    eventually(lambda: r1.call("GET", f"{path}/web")[1]["status"]["phase"] == "Running")
    _, running = r1.call("GET", f"{path}/web")
    status = running["status"]
    assert running["spec"]["nodeName"] in {"node-0", "node-1"}
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
    assert status["podIP"].startswith(r1.plan.pod_cidr.removesuffix("0.0/16"))
    assert status["hostIP"].startswith("172.")
    assert status["containerStatuses"][0]["state"]["running"]
    r1.call("DELETE", f"{path}/web")
    eventually(lambda: r1.call("GET", f"{path}/web")[0] == 404)


def test_logs_and_exec_reach_hollow_containers(testbed: TestBed, namespace: Callable[[Cluster], str]) -> None:
    r1 = testbed.supers["r1"]
    made = namespace(r1)
    r1.call("POST", f"/api/v1/namespaces/{made}/pods", pod("web"))
    r1.kubectl("wait", "-n", made, "--for=condition=Ready", "pod/web")
    assert "hollow container: working" in r1.kubectl("logs", "-n", made, "web")
    assert r1.kubectl("exec", "-n", made, "web", "--", "echo", "hello") == "hello\n"


def test_a_readiness_gate_keeps_a_pod_unready_until_its_condition_is_true(
    testbed: TestBed, namespace: Callable[[Cluster], str]
) -> None:
    r1 = testbed.supers["r1"]
    path = f"/api/v1/namespaces/{namespace(r1)}/pods"
    gated = pod("gated")
    gated["spec"]["readinessGates"] = [{"conditionType": "example.org/open"}]  # type: ignore[index]
    r1.call("POST", path, gated)
    eventually(lambda: r1.call("GET", f"{path}/gated")[1]["status"]["phase"] == "Running")
    conditions = r1.call("GET", f"{path}/gated")[1]["status"]["conditions"]
    assert {c["type"]: c["status"] for c in conditions}["Ready"] == "False"
    opened = [*conditions, {"type": "example.org/open", "status": "True"}]
    assert r1.call("PATCH", f"{path}/gated/status", {"status": {"conditions": opened}})[0] == 200

    def ready() -> bool:
        conditions = r1.call("GET", f"{path}/gated")[1]["status"]["conditions"]
        return {c["type"]: c["status"] for c in conditions}["Ready"] == "True"

    eventually(ready)


def test_a_job_completes_on_hollow_nodes(testbed: TestBed, namespace: Callable[[Cluster], str]) -> None:
    r2 = testbed.supers["r2"]
    made = namespace(r2)
    r2.kubectl("create", "job", "-n", made, "once", "--image=example.org/app:1")
    r2.kubectl("wait", "-n", made, "--for=condition=Complete", "job/once", "--timeout=30s")


def test_a_tenants_deployment_makes_pods_that_stay_pending(
    testbed: TestBed, namespace: Callable[[Cluster], str]
) -> None:
    acme = testbed.tenants["acme"]
    made = namespace(acme)
    acme.kubectl("create", "deployment", "-n", made, "web", "--image=example.org/app:1", "--replicas=2")
    path = f"/api/v1/namespaces/{made}/pods"
    eventually(lambda: len(acme.call("GET", path)[1]["items"]) == 2)
    for item in acme.call("GET", path)[1]["items"]:
        assert item["status"]["phase"] == "Pending"
        assert "nodeName" not in item["spec"]
    assert acme.call("GET", "/api/v1/nodes")[1]["items"] == []


def test_a_kubeconfig_with_relative_paths_works_from_any_folder(testbed: TestBed, tmp_path: Path) -> None:
    config = testbed.tenants["acme"].certificate_kubeconfig
    cluster = json.loads(config.read_text())["clusters"][0]["cluster"]
    assert not Path(cluster["certificate-authority"]).is_absolute()
    whoami = [
        locate("kubectl"),
        f"--kubeconfig={config}",
        "auth",
        "whoami",
        "-o",
        "jsonpath={.status.userInfo}",
    ]
    run = subprocess.run(whoami, cwd=tmp_path, capture_output=True, text=True, check=True)
    user = json.loads(run.stdout)
    assert user["username"] == "admin"
    assert "system:masters" in user["groups"]


def test_kubectl_fails_with_the_servers_message(kubectl: Kubectl) -> None:
    with pytest.raises(KubectlError, match='pods "nobody" not found'):
        kubectl("r1", "get", "pod", "nobody")


def test_a_restarted_api_server_has_its_data(testbed: TestBed, namespace: Callable[[Cluster], str]) -> None:
    umbrella = testbed.tenants["umbrella"]
    made = namespace(umbrella)
    before = umbrella.pids["kube-apiserver"]
    umbrella.restart_apiserver()
    assert umbrella.pids["kube-apiserver"] != before
    assert umbrella.call("GET", f"/api/v1/namespaces/{made}")[0] == 200


def test_a_paused_api_server_answers_after_it_is_resumed(testbed: TestBed) -> None:
    umbrella = testbed.tenants["umbrella"]
    umbrella.pause("kube-apiserver")
    try:
        with pytest.raises(TimeoutError):
            umbrella.call("GET", "/readyz", timeout=0.5)
    finally:
        umbrella.resume("kube-apiserver")
    umbrella.wait_ready()


def test_a_restarted_kwok_manages_its_nodes_immediately(
    testbed: TestBed, namespace: Callable[[Cluster], str]
) -> None:
    r2 = testbed.supers["r2"]
    r2.kill("kwok")
    assert "kwok" not in r2.pids
    r2.start("kwok")
    path = f"/api/v1/namespaces/{namespace(r2)}/pods"
    r2.call("POST", path, pod("web"))
    eventually(lambda: r2.call("GET", f"{path}/web")[1]["status"]["phase"] == "Running", within=15)


def test_compaction_expires_continuations_of_older_revisions(
    testbed: TestBed, namespace: Callable[[Cluster], str]
) -> None:
    r1 = testbed.supers["r1"]
    made = namespace(r1)
    path = f"/api/v1/namespaces/{made}/configmaps"
    for number in range(3):
        r1.call("POST", path, {"metadata": {"name": f"c{number}"}})
    _, page = r1.call("GET", f"{path}?limit=1")
    r1.call("POST", path, {"metadata": {"name": "later"}})
    testbed.compact()
    r1.restart_apiserver()  # its cache would still know
    status, answer = r1.call("GET", f"{path}?limit=1&continue={page['metadata']['continue']}")
    assert (status, answer["reason"]) == (410, "Expired")


async def test_kubectl_works_through_the_fault_proxy(
    testbed: TestBed, fault_proxy: Callable[..., Awaitable[FaultProxy]], tmp_path: Path
) -> None:
    r1 = testbed.supers["r1"]
    proxy = await fault_proxy(r1)

    async def through(proxy: FaultProxy, *arguments: str) -> str:
        return await asyncio.to_thread(r1.kubectl, *arguments, f"--kubeconfig={proxy.kubeconfig}")

    assert (await through(proxy, "get", "nodes", "-o", "name")).split() == ["node/node-0", "node/node-1"]
    assert proxy.count("/api/v1/nodes", "GET", 200) == 1
    refusal = faults.Answer(403, "Forbidden", "not today")
    with proxy.fault(refusal, faults.on("/api/v1/nodes")), pytest.raises(KubectlError, match="not today"):
        await through(proxy, "get", "nodes")
    tcp = await fault_proxy(r1, tcp=True)
    assert await through(tcp, "get", "--raw", "/readyz") == "ok"


def test_more_tenants_can_join_and_leave(testbed: TestBed) -> None:
    late = testbed.add_tenant("latecomer")
    assert late.call("GET", "/readyz")[0] == 200
    pids = late.pids
    testbed.remove("latecomer")
    assert "latecomer" not in testbed.clusters
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids.values())


def test_no_process_is_left_after_stop(tmp_path: Path) -> None:
    with TestBed(supers=0, tenants=0, directory=tmp_path / "bed"):
        attached = TestBed.attach(tmp_path / "bed")
        attached.meta.restart_apiserver()
        pids = [process.pid for process in attached.state.running()]
        assert len(pids) == 3  # etcd and the meta cluster's two
        with pytest.raises(TestBedError, match="already runs"):
            TestBed(supers=0, tenants=0, directory=tmp_path / "bed").start()
    attached.let_go()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    with pytest.raises(TestBedError, match="no test bed runs in"):
        TestBed.attach(tmp_path / "bed")


def test_a_server_that_does_not_start_is_named_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "assets" / "kube-controller-manager"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho unknown flag: --leader-elect >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(broken.parent))
    bed = TestBed(supers=0, tenants=0, directory=tmp_path / "bed")
    with pytest.raises(TestBedError) as error:
        bed.start()
    reason, heading, *lines = str(error.value).splitlines()
    assert reason == "kube-controller-manager of meta ended (exit code 3)"
    assert Path(heading.removeprefix("--- ")).read_text().splitlines() == lines
    assert lines == ["unknown flag: --leader-elect"]
    assert not bed.state.running()
