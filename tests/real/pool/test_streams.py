"""Requests of kubectl to kubelets are refused immediately with a reason, because a tenant's Pods run in other clusters."""

from __future__ import annotations

import subprocess

import pytest
from pool_kit import Space, pod

from hack.testbed import ensure
from tests.real.waiting import eventually

SECONDS = 60
"""Within which kubectl ends."""
REASON = "which logs, exec, attach and port-forward do not reach"
NO_HOST = "logs-do-not-reach-the-clusters-of-your-operator"


def refused(space: Space, *arguments: str) -> str:
    """Run a kubectl command that must fail, and return its error output.

    Raises:
        AssertionError: it does not fail.
        subprocess.TimeoutExpired: it does not end.
    """
    command = [str(ensure(["kubectl"])["kubectl"]), "--kubeconfig", str(space.tenant.kubeconfig)]
    command += ["--namespace", space.name, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=SECONDS, stdin=subprocess.DEVNULL
    )
    assert done.returncode != 0, done.stdout
    return done.stderr


@pytest.mark.core
def test_requests_to_kubelets_are_refused_immediately_with_a_reason(space: Space) -> None:
    space.apply(pod("one", on="r1"))
    space.running("one")
    # The policy is in effect when the API server knows its parameters, the virtual nodes.
    eventually(lambda: REASON in refused(space, "exec", "one", "--", "true"))
    for command in (["attach", "one"], ["port-forward", "one", "8080:80"], ["cp", "one:/x", "/dev/null"]):
        assert REASON in refused(space, *command)
    # Logs pass no admission: kube-apiserver looks up the kubelet, and cannot call it.
    said = refused(space, "logs", "one")
    assert REASON in said or NO_HOST in said
    assert "Metrics API not available" in refused(space, "top", "pod")


def test_kubectl_debug_ends_with_a_reason_when_its_container_is_refused(space: Space) -> None:
    space.apply(pod("patient", on="r1"))
    space.running("patient")

    said = refused(
        space, "debug", "-i", "patient", "--image=busybox:1.29", "--profile=general", "--container=surgeon"
    )

    assert REASON in said or NO_HOST in said
    (surgeon,) = (space.get("pods", "patient") or {})["status"]["ephemeralContainerStatuses"]
    ended = surgeon["state"]["terminated"]
    assert ended["reason"] == "PolicyRefused"
    assert "SYS_PTRACE" in ended["message"]


def test_a_running_debug_container_gets_an_event_that_it_cannot_be_attached(space: Space) -> None:
    space.apply(pod("patient", on="r1"))
    space.running("patient")

    space.kubectl("debug", "patient", "--image=busybox:1.29", "--profile=baseline", "--attach=false")

    events = eventually(lambda: space.events("patient", "WithoutEffect"))
    assert "nobody can attach to a debug container" in events[0]["message"]
