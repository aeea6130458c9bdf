"""kubectl's requests to a real kubelet, on two super clusters with one real node each, and the end of nodes."""

import subprocess
import sys
from pathlib import Path

from hack.testbed import TestBed
from tests.real.node.node_kit import Namespace, Remains, fetch
from tests.real.waiting import eventually

SERVER = "mkdir /www && echo page of $HOSTNAME > /www/index.html && exec httpd -f -p 8080 -h /www"


def test_logs_are_those_of_the_container(space: Namespace) -> None:
    space.start("speaker", "for i in 1 2 3; do echo line $i; done; exec sleep 3600")
    eventually(lambda: space.kubectl("logs", "speaker") == "line 1\nline 2\nline 3\n")
    assert space.kubectl("logs", "speaker", "--tail=2") == "line 2\nline 3\n"
    assert "Z line 1\n" in space.kubectl("logs", "speaker", "--timestamps")


def test_logs_contain_both_outputs_of_the_container(space: Namespace) -> None:
    # Their order is not specified: containerd reads two pipes.
    space.start("speaker", "echo written; echo complained >&2; exec sleep 3600")
    eventually(lambda: sorted(space.kubectl("logs", "speaker").split()) == ["complained", "written"])


def test_logs_are_followed_while_the_container_writes(space: Namespace) -> None:
    space.start(
        "speaker", "echo ready; until test -e /tmp/go; do sleep 0.1; done; echo gone; exec sleep 3600"
    )
    assert space.follow("speaker", until="ready") == "ready\n"
    space.kubectl("exec", "speaker", "--", "touch", "/tmp/go")
    assert space.follow("speaker", until="gone") == "ready\ngone\n"


def test_following_ends_with_the_container(space: Namespace) -> None:
    space.start("brief", "echo one; sleep 1; echo two", restartPolicy="Never")
    assert space.kubectl("logs", "--follow", "brief") == "one\ntwo\n"
    eventually(lambda: space.pod("brief")["status"]["phase"] == "Succeeded")


def test_logs_of_the_previous_container_remain_after_a_restart(space: Namespace) -> None:
    # A volume of the Pod tells its second container from the first.
    volumes = {"volumes": [{"name": "kept", "emptyDir": {}}]}
    script = "if mkdir /kept/seen 2>/dev/null; then echo first; exit 3; fi; echo second; exec sleep 3600"
    container = {"name": "main", "image": "busybox:1.35", "command": ["sh", "-c", script]}
    container |= {"volumeMounts": [{"name": "kept", "mountPath": "/kept"}]}
    space.start("restarted", script, containers=[container], **volumes)
    eventually(lambda: space.container("restarted")["restartCount"] == 1)
    assert space.container("restarted")["lastState"]["terminated"]["exitCode"] == 3
    eventually(lambda: space.kubectl("logs", "restarted") == "second\n")
    assert space.kubectl("logs", "restarted", "--previous") == "first\n"


def test_exec_runs_a_command_in_the_container(space: Namespace) -> None:
    space.start("worker", "exec sleep 3600")
    done = space.run("exec", "worker", "--", "sh", "-c", "hostname; echo wrong >&2; exit 7")
    assert (done.returncode, done.stdout) == (7, "worker\n")
    assert done.stderr == "wrong\ncommand terminated with exit code 7\n"
    assert space.kubectl("exec", "--stdin", "worker", "--", "tr", "a-z", "A-Z", text="typed") == "TYPED"


def test_exec_of_a_missing_program_fails(space: Namespace) -> None:
    space.start("worker", "exec sleep 3600")
    done = space.run("exec", "worker", "--", "no-such-program")
    assert done.returncode != 0
    assert "no-such-program" in done.stderr


def test_port_forward_reaches_a_server_in_the_pod(space: Namespace) -> None:
    space.start("server", SERVER)
    with space.forwarded("server", 8080) as port:
        assert eventually(lambda: fetch(port, "/")) == "page of server\n"
    # The API server's own proxy reaches it as well.
    path = f"/api/v1/namespaces/{space.name}/pods/server:8080/proxy/"
    assert space.kubectl("get", "--raw", path) == "page of server\n"


def test_files_are_copied_both_ways(space: Namespace, tmp_path: Path) -> None:
    space.start("worker", "exec sleep 3600")
    sent, got = tmp_path / "sent", tmp_path / "got"
    sent.write_bytes(bytes(range(256)) * 1024)
    space.kubectl("cp", str(sent), "worker:/tmp/file")
    space.kubectl("cp", "worker:/tmp/file", str(got))
    assert got.read_bytes() == sent.read_bytes()


def test_pods_reach_the_api_server_at_its_service_address(space: Namespace) -> None:
    space.start(
        "client",
        "",
        containers=[
            {
                "name": "main",
                "image": "registry.k8s.io/e2e-test-images/agnhost:2.63.0",
                "command": ["sh", "-c", "/agnhost connect $KUBERNETES_SERVICE_HOST:443 && echo reached"],
            }
        ],
        restartPolicy="Never",
    )
    eventually(lambda: space.pod("client")["status"]["phase"] == "Succeeded")
    assert space.kubectl("logs", "client") == "reached\n"


def test_nodes_are_separate(node_bed: TestBed) -> None:
    spaces = [Namespace(cluster, "default") for cluster in node_bed.supers.values()]
    for each in spaces:
        each.start("twin", f"echo {each.cluster.name}; exec sleep 3600")
    for each in spaces:
        eventually(lambda each=each: each.kubectl("logs", "twin") == f"{each.cluster.name}\n")  # type: ignore[misc]
    one, other = (each.pod("twin") for each in spaces)
    assert one["status"]["podIP"] != other["status"]["podIP"]
    assert one["status"]["hostIP"] != other["status"]["hostIP"]
    for each in spaces:
        each.kubectl("delete", "pod", "twin", "--wait=false")


def test_containers_outlive_a_kubelet_that_is_killed(node_bed: TestBed) -> None:
    cluster = node_bed.supers["r1"]
    space = Namespace(cluster, "default")
    space.start("survivor", "echo here; exec sleep 3600")
    before = space.container("survivor")["containerID"]
    cluster.kill("kubelet")
    cluster.start("kubelet")
    eventually(lambda: space.kubectl("exec", "survivor", "--", "hostname") == "survivor\n")
    assert space.container("survivor")["containerID"] == before
    space.kubectl("delete", "pod", "survivor", "--wait=false")


def test_containers_start_again_after_the_node_lost_power(node_bed: TestBed) -> None:
    cluster = node_bed.supers["r2"]
    space = Namespace(cluster, "default")
    space.start("restarted", "echo here; exec sleep 3600")
    cluster.kill("node")
    for component in ("node", "containerd", "kubelet"):
        cluster.start(component)
    eventually(lambda: space.container("restarted")["restartCount"] == 1)
    eventually(lambda: space.kubectl("exec", "restarted", "--", "hostname") == "restarted\n")
    space.kubectl("delete", "pod", "restarted", "--wait=false")


def test_a_removed_cluster_leaves_nothing_of_its_node(node_bed: TestBed) -> None:
    cluster = node_bed.add_super("r3")
    Namespace(cluster, "default").start("left", "exec sleep 3600")
    remains = Remains(cluster)
    assert len(remains.processes()) > 3  # containerd's shim, pause, and the container are among them
    assert remains.left() == ["link", "control group", "processes"]
    node_bed.remove("r3")
    eventually(lambda: not remains.left())


def test_down_removes_what_a_killed_test_bed_left(tmp_path: Path) -> None:
    folder = tmp_path / "bed"
    command = [sys.executable, "-m", "hack.testbed"]
    options = ["--supers=1", "--tenants=0", "--real-nodes", f"--dir={folder}"]
    with subprocess.Popen([*command, "up", *options], stdout=subprocess.PIPE, text=True) as process:
        assert any("Ctrl-C ends it" in line for line in process.stdout or ())
        bed = TestBed.attach(folder)
        cluster = bed.supers["r1"]
        Namespace(cluster, "default").start("left", "exec sleep 3600")
        remains = Remains(cluster)
        assert remains.left() == ["link", "control group", "processes"]
        process.kill()
    bed.let_go()
    # The kernel ends all but the control groups.
    eventually(lambda: remains.left() == ["control group"])
    subprocess.run([*command, "down", f"--dir={folder}"], check=True, timeout=120)
    assert remains.left() == []
    assert not (folder / "r1" / "node").exists()
