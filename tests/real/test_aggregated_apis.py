"""Aggregated APIs of a tenant with kubectl: a server in Python behind a Service, from its registration to its end."""

import itertools
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from kubectl_kit import Kubectl, behind_a_service

from hack.aggregated_server import GROUP, ROOT, VERSION, AggregatedServer
from hack.embedded import ControlPlane
from tests.real.waiting import eventually, limit
from vcsync.apiserver.operator.folder import own_address

ADDRESS = own_address()
"""Where the Pods of these tests are: this machine, seen from outside."""
NAME = f"{VERSION}.{GROUP}"
CONFIG = ("get", "configmap", "extension-apiserver-authentication", "-n", "kube-system")
NOT_FORWARDED = "this control plane does not forward requests to Services: its operator allows none"
REFUSED = "the operator of this server does not allow it to be called"
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    allowed = [
        flag for number in range(1, 20) for flag in ("--webhook-allow-network", f"open-{number}={ADDRESS}/32")
    ]
    with ControlPlane(tmp_path_factory.mktemp("plane"), arguments=allowed) as found:
        yield found


@pytest.fixture
def server() -> Iterator[AggregatedServer]:
    with AggregatedServer(["web.shop.svc"], address=ADDRESS) as found:
        yield found


@pytest.fixture
def kubectl(plane: ControlPlane) -> Kubectl:
    """kubectl of a new tenant whose Services may be called."""
    return Kubectl(plane.create(f"open-{next(_NUMBERS)}"))


def api_service(server: AggregatedServer, **spec: Any) -> Any:
    known = {
        "group": GROUP,
        "version": VERSION,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"namespace": "shop", "name": "web"},
        "caBundle": server.bundle,
    }
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": NAME},
        "spec": {**known, **spec},
    }


def condition(kubectl: Kubectl) -> tuple[str, str]:
    """Return status and reason of the condition Available."""
    conditions = (kubectl.json("get", "apiservice", NAME).get("status") or {}).get("conditions") or [{}]
    return conditions[0].get("status", ""), conditions[0].get("reason", "")


def message(kubectl: Kubectl) -> str:
    return str(kubectl.json("get", "apiservice", NAME)["status"]["conditions"][0]["message"])


def until(kubectl: Kubectl, *wanted: str) -> None:
    eventually(lambda: condition(kubectl) == wanted)


def registered(kubectl: Kubectl, server: AggregatedServer) -> None:
    """Serve and register an API, and wait until it is available."""
    behind_a_service(kubectl, "shop", "web", ADDRESS, server.port)
    kubectl("create", given=api_service(server))
    authority = eventually(lambda: kubectl.json(*CONFIG)["data"].get("requestheader-client-ca-file"))
    server.trust(authority)
    until(kubectl, "True", "Passed")


def gadget(name: str) -> Any:
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Gadget", "metadata": metadata}


def test_objects_are_created_read_watched_and_deleted(kubectl: Kubectl, server: AggregatedServer) -> None:
    registered(kubectl, server)
    assert "True" in kubectl("get", "apiservice", NAME)
    listed = kubectl("api-resources", "--api-group", GROUP)
    assert [line.split()[:4] for line in listed.splitlines()[1:2]] == [
        ["callers", f"{GROUP}/{VERSION}", "false", "Caller"]
    ]
    assert "gadgets" in listed
    kubectl("create", "--validate=false", given=gadget("a"))
    made = kubectl.json("get", "gadget", "a", "-n", "shop")
    assert made["metadata"]["annotations"]["by"] == "admin"
    assert "a" in kubectl("get", "gd", "-n", "shop")
    assert "gadgets" in kubectl("api-resources", "--namespaced", "--verbs=watch", "-o", "name")
    watch = [*kubectl.command, "get", "gadgets", "-n", "shop", "-w", "-o", "name"]
    with subprocess.Popen(watch, stdout=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None
            assert watching.stdout.readline().strip() == f"gadget.{GROUP}/a"
            kubectl("create", "--validate=false", given=gadget("b"))
            assert watching.stdout.readline().strip() == f"gadget.{GROUP}/b"
        finally:
            watching.kill()
    kubectl("delete", "gadget", "a", "-n", "shop", "--wait=false")
    assert "not found" in kubectl.refused("get", "gadget", "a", "-n", "shop")
    kubectl("delete", "gadgets", "--all", "-n", "shop", "--wait=false")
    assert server.gadgets == {}


def test_the_server_learns_the_caller_and_nothing_that_a_client_claims(
    kubectl: Kubectl, server: AggregatedServer
) -> None:
    registered(kubectl, server)
    found = json.loads(kubectl("get", "--raw", f"{ROOT}/callers/me"))
    assert found["user"] == "admin"
    assert found["groups"] == ["vcsync:tenant-admins", "system:authenticated"]
    assert "authorization" not in found["headers"]
    as_other = json.loads(
        kubectl("get", "--raw", f"{ROOT}/callers/me", "--as=jane", "--as-group=system:masters")
    )
    assert as_other["user"] == "jane"
    forged = json.loads(_asked(kubectl, f"{ROOT}/callers/me", X_Remote_User="root", X_Remote_Group="root"))
    assert forged["user"] == "admin"
    assert "root" not in forged["groups"]


def _asked(kubectl: Kubectl, path: str, **headers: str) -> str:
    """Make a request with headers that kubectl cannot send, through its proxy."""
    command = [*kubectl.command, "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout is not None
            port = proxy.stdout.readline().strip().rpartition(":")[2]
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=given)
            with urllib.request.urlopen(request, timeout=limit(30)) as answer:
                return str(answer.read().decode())
        finally:
            proxy.kill()


def test_the_condition_follows_the_server(kubectl: Kubectl, server: AggregatedServer) -> None:
    registered(kubectl, server)
    server.stop()
    until(kubectl, "False", "FailedDiscoveryCheck")
    assert ADDRESS not in message(kubectl)
    assert f"APIService {NAME} is not available" in kubectl.refused(
        "get", "--raw", f"{ROOT}/namespaces/shop/gadgets"
    )
    kubectl("get", "configmaps", "-A")
    server.restart()
    until(kubectl, "True", "Passed")
    kubectl("get", "gadgets", "-n", "shop")
    kubectl("delete", "apiservice", NAME)
    assert GROUP not in kubectl("api-versions")


def test_a_destination_that_is_not_allowed_is_not_called(
    plane: ControlPlane, server: AggregatedServer
) -> None:
    kubectl = Kubectl(plane.create("closed"))
    behind_a_service(kubectl, "shop", "web", ADDRESS, server.port)
    created = kubectl.run("create", given=api_service(server))
    assert created.returncode == 0
    assert f"Warning: {NAME} is not available: {NOT_FORWARDED}" in created.stderr
    assert condition(kubectl) == ("False", "NotForwarded")
    assert NOT_FORWARDED in kubectl.refused("get", "--raw", f"{ROOT}/namespaces/shop/gadgets")
    assert server.requests == []


@pytest.mark.parametrize(
    ("address", "pod_address", "why"),
    [
        ("198.51.100.7", "198.51.100.7", REFUSED),
        (ADDRESS, "198.51.100.7", 'no endpoints available for service "web"'),
    ],
)
def test_a_foreign_address_is_not_called(
    kubectl: Kubectl, server: AggregatedServer, address: str, pod_address: str, why: str
) -> None:
    behind_a_service(kubectl, "shop", "web", address, server.port, pod_address)
    kubectl("create", given=api_service(server))
    until(kubectl, "False", "FailedDiscoveryCheck")
    assert why in message(kubectl)
    assert server.requests == []


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("redirect", "redirects"),
        ("endless headers", "malformed HTTP response"),
        ("401", "does not accept the certificate of this control plane"),
        ("500", "status 500"),
        ("garbage", "malformed HTTP response"),
    ],
)
def test_a_server_that_misbehaves_fails_its_own_requests_only(
    kubectl: Kubectl, server: AggregatedServer, behaviour: str, said: str
) -> None:
    registered(kubectl, server)
    server.behaviour = behaviour
    assert said in kubectl.refused("get", "--raw", f"{ROOT}/namespaces/shop/gadgets")
    kubectl("get", "pods", "-n", "shop")
    server.behaviour = ""
    kubectl("get", "gadgets", "-n", "shop")


def test_a_server_that_hangs_holds_up_nobody_else(
    plane: ControlPlane, kubectl: Kubectl, server: AggregatedServer
) -> None:
    registered(kubectl, server)
    server.behaviour, server.at = "hang", "all"
    hanging = [
        subprocess.Popen(
            [*kubectl.command, "get", "--raw", f"{ROOT}/namespaces/shop/gadgets"], stderr=subprocess.DEVNULL
        )
        for _ in range(10)
    ]
    try:
        other = Kubectl(plane.create(f"quiet-{next(_NUMBERS)}"))
        for _ in range(3):
            other("get", "namespaces")
            kubectl("get", "namespaces")
        until(kubectl, "False", "FailedDiscoveryCheck")
    finally:
        for each in hanging:
            each.kill()
            each.wait(limit(10))


def test_the_group_of_a_server_that_is_gone_is_stale_in_discovery(
    kubectl: Kubectl, server: AggregatedServer
) -> None:
    registered(kubectl, server)
    server.stop()
    until(kubectl, "False", "FailedDiscoveryCheck")
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    document = json.loads(_asked(kubectl, "/apis", Accept=accept))
    (found,) = [each for each in document["items"] if each["metadata"]["name"] == GROUP]
    assert found["versions"][0]["freshness"] == "Stale"


def test_a_rotated_tenant_has_a_new_authority(
    plane: ControlPlane, kubectl: Kubectl, server: AggregatedServer
) -> None:
    registered(kubectl, server)
    before = kubectl.json(*CONFIG)["data"]["requestheader-client-ca-file"]
    tenant = f"open-{next(_NUMBERS) - 1}"
    plane.vcsync("tenant", "rotate", tenant)
    again = Kubectl(plane.kubeconfig(tenant))
    after = again.json(*CONFIG)["data"]["requestheader-client-ca-file"]
    assert after != before
    server.trust(after)
    until(again, "True", "Passed")
    again("get", "gadgets", "-n", "shop")
