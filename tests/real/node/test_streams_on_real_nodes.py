"""kubectl logs, exec, attach, cp, debug and port-forward in real containers, with a kubectl that speaks WebSocket and one that
speaks SPDY, of an embedded tenant and of one with a kube-apiserver of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.node.node_kit import Namespace, fetch
from tests.real.pool.pool_kit import Pool, Space, container, pod
from tests.real.waiting import eventually

SHELL = ["sh", "-c"]
SERVER = "mkdir /www && echo page of $HOSTNAME > /www/index.html && exec httpd -f -p 8080 -h /www"


@pytest.fixture(params=["inside", "outside"])
def space(node_pool: Pool, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace of each tenant in turn, with a slice on each super cluster."""
    with node_pool.space(request.param) as space:
        yield space


@pytest.fixture
def user(space: Space, request: pytest.FixtureRequest) -> Namespace:
    """A kubectl of the tenant in that namespace."""
    return Namespace(space.tenant, space.name, getattr(request, "param", "kubectl"))


both_protocols = pytest.mark.parametrize("user", ["kubectl", "kubectl-spdy"], indirect=True)


def start(
    space: Space, user: Namespace, name: str, script: str, super_id: str = "r1", **spec: object
) -> None:
    """Run a script in a container, and wait until the tenant reaches it."""
    space.apply(
        pod(name, on=super_id, containers=[container(image="busybox:1.35", command=[*SHELL, script])], **spec)
    )
    space.running(name)
    # The kubelet API is open a moment after the first virtual node exists.
    eventually(lambda: user.run("exec", name, "--", "true").returncode == 0)


@pytest.mark.parametrize("super_id", ["r1", "r2"])
def test_logs_are_those_of_the_container(space: Space, user: Namespace, super_id: str) -> None:
    start(space, user, "speaker", "for i in 1 2 3; do echo line $i; done; exec sleep 3600", super_id)
    assert user.kubectl("logs", "speaker") == "line 1\nline 2\nline 3\n"
    assert user.kubectl("logs", "speaker", "--tail=2") == "line 2\nline 3\n"
    assert "Z line 1\n" in user.kubectl("logs", "speaker", "--timestamps", "--since=1h")
    assert "not found" in user.run("logs", "speaker", "--previous").stderr
    assert user.follow("speaker", until="line 3") == "line 1\nline 2\nline 3\n"


@both_protocols
def test_exec_runs_a_command_in_the_container(space: Space, user: Namespace) -> None:
    start(space, user, "worker", "exec sleep 3600")
    done = user.run("exec", "worker", "--", "sh", "-c", "cat /proc/1/comm; echo wrong >&2; exit 7")
    assert (done.returncode, done.stdout) == (7, "sleep\n")
    assert done.stderr == "wrong\ncommand terminated with exit code 7\n"
    assert user.kubectl("exec", "--stdin", "worker", "--", "tr", "a-z", "A-Z", text="typed") == "TYPED"
    missing = user.run("exec", "worker", "--", "no-such-program")
    assert missing.returncode != 0
    assert "no-such-program" in missing.stderr


@both_protocols
def test_attach_shows_the_output_of_the_container(space: Space, user: Namespace) -> None:
    start(space, user, "speaker", "while sleep 0.2; do echo tick; done")
    assert "tick\n" in user.follow("speaker", "tick", ("attach",))


def test_long_output_arrives_whole(space: Space, user: Namespace) -> None:
    start(space, user, "worker", "exec sleep 3600")
    size = 20_000_000
    for _ in range(3):
        assert len(user.kubectl("exec", "worker", "--", "head", "-c", str(size), "/dev/zero")) == size


@both_protocols
def test_files_are_copied_both_ways(space: Space, user: Namespace, tmp_path: Path) -> None:
    start(space, user, "worker", "exec sleep 3600")
    sent, got = tmp_path / "sent", tmp_path / "got"
    sent.write_bytes(bytes(range(256)) * 1024)
    user.kubectl("cp", str(sent), "worker:/tmp/file")
    user.kubectl("cp", "worker:/tmp/file", str(got))
    assert got.read_bytes() == sent.read_bytes()


@both_protocols
def test_port_forward_reaches_a_server_in_the_pod(space: Space, user: Namespace) -> None:
    start(space, user, "server", SERVER)
    with user.forwarded("server", 8080) as port:
        assert eventually(lambda: fetch(port, "/")).startswith("page of ")


@pytest.mark.parametrize("space", ["inside"], indirect=True)
def test_the_api_reaches_a_server_in_the_pod(space: Space, user: Namespace) -> None:
    """The kube-apiserver of the other tenant connects to the Pod itself, for which it needs a route."""
    start(space, user, "server", SERVER)
    page = f"/api/v1/namespaces/{space.name}/pods/server:8080/proxy/index.html"
    assert eventually(lambda: user.kubectl("get", "--raw", page)).startswith("page of ")


@both_protocols
def test_debug_attaches_to_an_ephemeral_container(space: Space, user: Namespace) -> None:
    start(space, user, "patient", "exec sleep 3600")
    done = user.run(
        "debug", "--stdin", "patient", "--image=busybox:1.35", "--profile=baseline", "--container=surgeon",
        "--", "sh", "-c", "echo seen; cat", text="typed\n",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # What the container wrote before kubectl was attached is in its log only.
    eventually(lambda: user.kubectl("logs", "patient", "--container=surgeon") == "seen\ntyped\n")


def test_a_stream_ends_with_its_pod(space: Space, user: Namespace) -> None:
    start(space, user, "brief", "exec sleep 3600", terminationGracePeriodSeconds=1)
    user.kubectl("delete", "pod", "brief", "--wait=false")
    done = user.run("logs", "--follow", "brief")
    assert done.returncode in {0, 1}
