"""Pods of an embedded and of an external tenant in real containers on two super clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.pool.pool_kit import Pool, Space, container, phase, pod
from tests.real.waiting import eventually


@pytest.fixture(params=["inside", "outside"])
def space(node_pool: Pool, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace of each tenant in turn, with a slice on each super cluster."""
    with node_pool.space(request.param) as space:
        yield space


@pytest.mark.parametrize("super_id", ["r1", "r2"])
def test_a_pod_runs_in_a_real_container(space: Space, super_id: str) -> None:
    space.apply(pod("web", on=super_id))
    found, (below, real) = space.running("web"), space.below("web")
    assert below == super_id
    [status] = found["status"]["containerStatuses"]
    assert status["containerID"].startswith("containerd://")
    assert status == real["status"]["containerStatuses"][0]
    assert found["status"]["podIP"] == real["status"]["podIP"]


def test_a_tenant_sees_how_its_container_ended(space: Space) -> None:
    ending = container(image="busybox:1.35", command=["sh", "-c", "echo bye > /dev/termination-log; exit 3"])
    space.apply(pod("brief", on="r1", containers=[ending], restartPolicy="Never"))
    eventually(lambda: phase(space.get("pods", "brief")) == "Failed")
    [status] = (space.get("pods", "brief") or {})["status"]["containerStatuses"]
    ended = status["state"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (3, "bye\n")


def test_a_tenants_configuration_reaches_the_container(space: Space) -> None:
    space.kubectl("create", "configmap", "greeting", "--from-literal=word=hello")
    reading = container(
        image="busybox:1.35",
        command=["sh", "-c", 'test "$(cat /etc/greeting/word)" = hello && test "$WORD" = hello'],
        volumeMounts=[{"name": "greeting", "mountPath": "/etc/greeting"}],
        env=[{"name": "WORD", "valueFrom": {"configMapKeyRef": {"name": "greeting", "key": "word"}}}],
    )
    volumes = [{"name": "greeting", "configMap": {"name": "greeting"}}]
    space.apply(pod("reader", on="r2", containers=[reading], volumes=volumes, restartPolicy="Never"))
    eventually(lambda: phase(space.get("pods", "reader")) == "Succeeded")
