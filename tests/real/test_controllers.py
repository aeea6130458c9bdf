"""Our controllers in their own process for an embedded control plane: namespaces, garbage collection, workloads."""

import asyncio
import base64
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hack.embedded import ControlPlane
from hack.testbed import ensure
from tests.real.controllers_kit import controllers, gone
from tests.real.waiting import soon
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from vcsync.objects.envelope import untyped

WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)
DEFINITION = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start a control plane with the tenant acme, and its controllers; returns the tenant's kubeconfig."""
    folder = tmp_path_factory.mktemp("controllers")
    with ControlPlane(folder) as plane:
        found = plane.create("acme")
        with controllers(plane):
            yield found


@pytest.fixture
async def acme(kubeconfig: Path) -> AsyncIterator[Client]:
    async with Client(Connection.from_kubeconfig_file(kubeconfig), name="acme") as client:
        yield client


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


async def deployed(client: Client, name: str, namespace: str = "default") -> None:
    await soon(lambda: _settled(client, namespace))
    await client.create(DEPLOYMENTS, deployment(name), namespace)
    await soon(lambda: _pods(client, name, namespace, 2))


async def _settled(client: Client, namespace: str) -> bool:
    return not await gone(client, CONFIG_MAPS, "kube-root-ca.crt", namespace)


async def _pods(client: Client, name: str, namespace: str, count: int) -> bool:
    return len(await client.list(PODS, namespace, label_selector=f"app={name}")) == count


async def test_the_deletion_of_a_namespace_deletes_all_objects_in_it(acme: Client) -> None:
    await acme.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
    await acme.create(NAMESPACES, {"metadata": {"name": "shop"}})
    await deployed(acme, "web", "shop")

    async def served() -> bool:
        try:
            await acme.create(WIDGETS, {"metadata": {"name": "one"}}, "shop")
        except NotFound:
            return False
        return True

    await soon(served)
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    await acme.create(CONFIG_MAPS, held, "shop")
    await acme.delete(NAMESPACES, "shop")

    async def reported() -> bool:
        namespace = await acme.get(NAMESPACES, "shop")
        return b"example.com/hold in 1 resource instances" in namespace.status

    await soon(reported)
    assert await gone(acme, WIDGETS, "one", "shop")
    assert await gone(acme, DEPLOYMENTS, "web", "shop")
    await acme.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, "shop")
    await soon(lambda: gone(acme, NAMESPACES, "shop"))


async def test_background_deletion_deletes_dependents_after_their_owner(acme: Client) -> None:
    await deployed(acme, "background")
    await acme.delete(DEPLOYMENTS, "background", "default", propagation="Background")
    await soon(lambda: _pods(acme, "background", "default", 0))
    assert not await acme.list(REPLICA_SETS, "default", label_selector="app=background")


async def test_foreground_deletion_deletes_dependents_before_their_owner(acme: Client) -> None:
    await deployed(acme, "foreground")
    left = await acme.delete(DEPLOYMENTS, "foreground", "default", propagation="Foreground")
    assert left is not None
    await soon(lambda: gone(acme, DEPLOYMENTS, "foreground", "default"))
    assert await _pods(acme, "foreground", "default", 0)
    assert not await acme.list(REPLICA_SETS, "default", label_selector="app=foreground")


async def test_orphaned_dependents_remain_without_their_owner(acme: Client) -> None:
    await deployed(acme, "orphans")
    await acme.delete(DEPLOYMENTS, "orphans", "default", propagation="Orphan")
    await soon(lambda: gone(acme, DEPLOYMENTS, "orphans", "default"))
    [replicas] = await acme.list(REPLICA_SETS, "default", label_selector="app=orphans")
    assert not replicas.owners
    assert await _pods(acme, "orphans", "default", 2)


async def test_custom_resources_can_be_owners_and_dependents(acme: Client) -> None:
    names = {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"}
    spec = {**DEFINITION["spec"], "names": names}  # type: ignore[dict-item]
    await acme.create(CUSTOM_RESOURCE_DEFINITIONS, {"metadata": {"name": "gears.example.com"}, "spec": spec})
    gears = Resource("example.com", "v1", "gears", "Gear", namespaced=True)

    async def served() -> bool:
        try:
            await acme.create(gears, {"metadata": {"name": "first"}}, "default")
        except NotFound:
            return False
        return True

    await soon(served)
    first = await acme.get(gears, "first", "default")
    owner = {"apiVersion": "example.com/v1", "kind": "Gear", "name": "first", "uid": first.uid}
    second = await acme.create(gears, {"metadata": {"name": "second", "ownerReferences": [owner]}}, "default")
    owner |= {"name": "second", "uid": second.uid}
    third = {"metadata": {"name": "third", "ownerReferences": [owner]}}
    await acme.create(CONFIG_MAPS, third, "default")
    await acme.delete(gears, "first", "default")
    await soon(lambda: gone(acme, CONFIG_MAPS, "third", "default"))
    assert await gone(acme, gears, "second", "default")


async def test_owners_in_another_namespace_or_with_another_uid_do_not_count(acme: Client) -> None:
    await acme.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
    there = await acme.create(CONFIG_MAPS, {"metadata": {"name": "there"}}, "elsewhere")
    here = await acme.create(CONFIG_MAPS, {"metadata": {"name": "here"}}, "default")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "there", "uid": there.uid}
    for name, uid in (("there", there.uid), ("here", f"{here.uid[:-1]}x")):
        owners = [{**owner, "name": name, "uid": uid}]
        made = {"metadata": {"name": f"of-{name}", "ownerReferences": owners}}
        await acme.create(SECRETS, made, "default")
        await soon(lambda name=name: gone(acme, SECRETS, f"of-{name}", "default"))  # type: ignore[misc]
    owners = [owner]
    await acme.create(CLUSTER_ROLES, {"metadata": {"name": "owned", "ownerReferences": owners}, "rules": []})

    async def reported() -> bool:
        events = await acme.list(EVENTS, "default")
        found = [each for each in events if b'"OwnerRefInvalidNamespace"' in each.rest]
        return any(b'"ClusterRole"' in each.rest for each in found) and len(found) > 1

    await soon(reported)
    assert not await gone(acme, CLUSTER_ROLES, "owned")


async def test_quotas_count_existing_objects_and_release_deleted_ones(acme: Client) -> None:
    await acme.create(NAMESPACES, {"metadata": {"name": "limited"}})
    await deployed(acme, "counted", "limited")
    hard = {
        "pods": "5",
        "requests.cpu": "1",
        "secrets": "3",
        "count/deployments.apps": "2",
        "count/gears.example.com": "4",
    }
    await acme.create(RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}}, "limited")

    async def used() -> dict[str, str]:
        found = untyped((await acme.get(RESOURCE_QUOTAS, "q", "limited")).status).get("used", {})
        assert isinstance(found, dict)
        return found

    async def reported(**wanted: str) -> bool:
        return wanted.items() <= (await used()).items()

    await soon(lambda: reported(pods="2", secrets="0"))
    assert (await used())["count/deployments.apps"] == "1"
    assert (await used())["requests.cpu"] == "0"
    await acme.create(SECRETS, {"metadata": {"name": "s"}}, "limited")
    await soon(lambda: reported(secrets="1"))
    await acme.delete(SECRETS, "s", "limited")
    await soon(lambda: reported(secrets="0"))
    await acme.patch(DEPLOYMENTS, "counted", {"spec": {"replicas": 0}}, "limited")
    await soon(lambda: reported(pods="0"))


async def run(client: Client, name: str, address: str) -> None:
    """Write the status of a running Pod, like a kubelet."""
    await soon(lambda: _there(client, PODS, name))
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await client.patch(PODS, name, {"status": status}, "default", subresource="status")


async def _there(client: Client, resource: Resource, name: str) -> bool:
    return not await gone(client, resource, name, "default")


async def test_pods_of_a_stateful_set_start_in_order_and_are_covered_by_service_and_budget(
    acme: Client,
) -> None:
    await soon(lambda: _settled(acme, "default"))
    labels, port = {"app": "db"}, {"name": "sql", "port": 5432}
    service = {"clusterIP": "None", "selector": labels, "ports": [port]}
    await acme.create(SERVICES, {"metadata": {"name": "db"}, "spec": service}, "default")
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    await acme.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "db"}, "spec": budget}, "default")
    body = deployment("db")
    await acme.create(STATEFUL_SETS, {**body, "spec": {**body["spec"], "serviceName": "db"}}, "default")
    addresses = ["10.0.0.10", "10.0.0.11"]
    await soon(lambda: _there(acme, PODS, "db-0"))
    assert await gone(acme, PODS, "db-1", "default")
    for number, address in enumerate(addresses):
        await run(acme, f"db-{number}", address)

    async def reached() -> bool:
        slices = await acme.list(ENDPOINT_SLICES, "default", label_selector="kubernetes.io/service-name=db")
        found = sorted(
            address
            for each in slices
            for endpoint in untyped(each.rest).get("endpoints") or ()
            for address in endpoint["addresses"]
            if endpoint["conditions"]["ready"]
        )
        [subset] = untyped((await acme.get(ENDPOINTS, "db", "default")).rest).get("subsets") or [{}]
        allowed = untyped((await acme.get(POD_DISRUPTION_BUDGETS, "db", "default")).status)
        ready = sorted(each["ip"] for each in subset.get("addresses") or ())
        return found == ready == addresses and allowed.get("disruptionsAllowed") == 1

    await soon(reached)
    complete = untyped((await acme.get(STATEFUL_SETS, "db", "default")).status)
    assert complete["currentRevision"] == complete["updateRevision"]


async def run_kubectl(
    config: Path,
    *arguments: str,
    input: str | None = None,  # noqa: A002
) -> subprocess.CompletedProcess[str]:
    command = [str(ensure(["kubectl"])["kubectl"]), "--kubeconfig", str(config), *arguments]
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=60, input=input, check=False
    )


async def kubectl(config: Path, *arguments: str, input: str | None = None) -> str:  # noqa: A002
    done = await run_kubectl(config, *arguments, input=input)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def whoami(kubeconfig: Path, name: str, **user: str) -> Any:
    """Return the user of some credentials, as the API server reports it."""
    content = yaml.safe_load(kubeconfig.read_text())
    content["users"][0]["user"] = user
    path = kubeconfig.with_name(f"{name}.kubeconfig")
    path.write_text(yaml.safe_dump(content))
    answer = json.loads(await kubectl(path, "auth", "whoami", "-o", "json"))
    return answer["status"]["userInfo"]


async def test_an_approved_certificate_authenticates(acme: Client, kubeconfig: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "devs"),
            x509.NameAttribute(NameOID.COMMON_NAME, "ann"),
        ]
    )
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    spec = {
        "request": base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    }
    await acme.create(CERTIFICATE_SIGNING_REQUESTS, {"metadata": {"name": "ann"}, "spec": spec})
    await kubectl(kubeconfig, "certificate", "approve", "ann")

    async def certificate() -> str:
        request = await acme.get(CERTIFICATE_SIGNING_REQUESTS, "ann")
        return str(untyped(request.status).get("certificate") or "")

    async def issued() -> bool:
        return bool(await certificate())

    await soon(issued)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    held = {
        "client-certificate-data": await certificate(),
        "client-key-data": base64.b64encode(pem).decode(),
    }
    found = await whoami(kubeconfig, "ann", **held)
    assert (found["username"], found["groups"]) == ("ann", ["devs", "system:authenticated"])
    assert "Issued" in await kubectl(kubeconfig, "get", "csr", "ann")


async def test_the_token_in_a_secret_authenticates_while_its_account_exists(
    acme: Client, kubeconfig: Path
) -> None:
    await acme.create(SERVICE_ACCOUNTS, {"metadata": {"name": "robot"}}, "default")
    annotations = {"kubernetes.io/service-account.name": "robot"}
    secret = {
        "metadata": {"name": "robot", "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    }
    await acme.create(SECRETS, secret, "default")

    async def data() -> dict[str, str]:
        return untyped((await acme.get(SECRETS, "robot", "default")).rest).get("data") or {}

    async def filled() -> bool:
        return sorted(await data()) == ["ca.crt", "namespace", "token"]

    await soon(filled)
    token = base64.b64decode((await data())["token"]).decode()
    found = await whoami(kubeconfig, "robot", token=token)
    assert found["username"] == "system:serviceaccount:default:robot"
    await acme.delete(SERVICE_ACCOUNTS, "robot", "default")
    await soon(lambda: gone(acme, SECRETS, "robot", "default"))


async def test_a_no_execute_taint_evicts_pods_that_do_not_tolerate_it(acme: Client, kubeconfig: Path) -> None:
    """The syncer writes virtual nodes and their taints; the operator does so here."""
    await soon(lambda: _settled(acme, "default"))
    admin = kubeconfig.parent / "data" / "admin.kubeconfig"
    async with Client(Connection.from_kubeconfig_file(admin), name="operator") as server:
        nodes = server.below("/tenants/acme")
        await nodes.create(NODES, {"metadata": {"name": "mine"}})
        for name, tolerations in (("weak", []), ("strong", [{"key": "own", "operator": "Exists"}])):
            spec = {
                "nodeName": "mine",
                "tolerations": tolerations,
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "i"}],
            }
            await acme.create(PODS, {"metadata": {"name": name}, "spec": spec}, "default")
        taint = {"key": "own", "value": "yes", "effect": "NoExecute"}
        await nodes.patch(NODES, "mine", {"spec": {"taints": [taint]}})
    await soon(lambda: gone(acme, PODS, "weak", "default"))
    assert not await gone(acme, PODS, "strong", "default")

    async def reported() -> bool:
        events = await acme.list(EVENTS, "default", field_selector="reason=TaintManagerEviction")
        return any(b"Marking for deletion Pod default/weak" in each.rest for each in events)

    await soon(reported)


DAEMON_SET = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: daemon, namespace: default}
spec:
  selector: {matchLabels: {app: daemon}}
  template:
    metadata: {labels: {app: daemon}}
    spec:
      terminationGracePeriodSeconds: 0
      tolerations: [{operator: Exists}]
      containers: [{name: c, image: i}]
"""


async def test_daemon_sets_run_on_the_operators_nodes_and_are_refused_to_tenants_with_a_reason(
    kubeconfig: Path,
) -> None:
    refused = await run_kubectl(kubeconfig, "apply", "-f", "-", input=DAEMON_SET)
    assert 'no matches for kind "DaemonSet"' in refused.stderr
    asked = await run_kubectl(kubeconfig, "get", "--raw", "/apis/apps/v1/daemonsets")
    assert "a DaemonSet runs on every node" in asked.stderr
    assert "vcsync tenant set acme --controllers external" in asked.stderr
    admin = kubeconfig.parent / "data" / "admin.kubeconfig"
    async with Client(Connection.from_kubeconfig_file(admin), name="operator") as server:
        system = server.below("/tenants/system")
        await soon(lambda: _settled(system, "default"))
        await _node(system, "one")
        await kubectl(admin, "apply", "-f", "-", input=DAEMON_SET)
        await soon(lambda: _pods(system, "daemon", "default", 1))
        [pod] = await system.list(PODS, "default", label_selector="app=daemon")
        await _bind(system, pod.name, "one")
        await run(system, pod.name, "10.0.0.1")
        await kubectl(admin, "rollout", "status", "daemonset/daemon", "--timeout=55s")
        await kubectl(admin, "set", "image", "daemonset/daemon", "c=j")
        await soon(lambda: gone(system, PODS, pod.name, "default"))
        await soon(lambda: _pods(system, "daemon", "default", 1))
        history = await kubectl(admin, "rollout", "history", "daemonset/daemon")
        assert [line.split()[0] for line in history.splitlines()[2:4]] == ["1", "2"]


async def _node(client: Client, name: str) -> None:
    """Create a node that is healthy for the duration of the test."""
    await client.create(NODES, {"metadata": {"name": name}})
    now = datetime.now(UTC)
    spec = {"leaseDurationSeconds": 3600, "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    await client.create(LEASES, {"metadata": {"name": name}, "spec": spec}, "kube-node-lease")
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now.strftime("%Y-%m-%dT%H:%M:%SZ")}
    await client.patch(NODES, name, {"status": {"conditions": [ready]}}, subresource="status")


async def _bind(client: Client, pod: str, node: str) -> None:
    """Bind a Pod, like a scheduler."""
    body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
    await client.create_raw(PODS, body, "default", name=pod, subresource="binding")


LARGEST = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: many}
spec:
  podManagementPolicy: Parallel
  replicas: 2147483647
  serviceName: many
  selector: {matchLabels: {app: many}}
  template:
    metadata: {labels: {app: many}}
    spec: {containers: [{name: c, image: i}]}
"""
MOST_MEMORY = 512 << 20
"""Bytes that the process of the controllers may have. It took some 100 GB to list all numbers of such a StatefulSet."""


def memory(process: int) -> int:
    """Return the resident bytes of a process."""
    [line] = [each for each in Path(f"/proc/{process}/status").read_text().splitlines() if "VmRSS" in each]
    return int(line.split()[1]) << 10


async def test_the_largest_stateful_set_stops_nobody(tmp_path: Path) -> None:
    with ControlPlane(tmp_path) as plane:
        acme, other = plane.create("acme"), plane.create("other")
        with controllers(plane) as process:
            await kubectl(acme, "create", "quota", "some", "--hard=pods=700")

            async def has_quota() -> bool:
                text = await kubectl(acme, "get", "quota", "some", "-o", "jsonpath={.status.hard.pods}")
                return text == "700"

            await soon(has_quota)
            await kubectl(acme, "apply", "-f", "-", input=LARGEST)

            async def has_all() -> bool:
                path = "jsonpath={.status.replicas}"
                return await kubectl(acme, "get", "statefulset", "many", "-o", path) == "700"

            await soon(has_all)
            await kubectl(other, "create", "deployment", "web", "--image=i", "--replicas=3")

            async def has_three() -> bool:
                return len((await kubectl(other, "get", "pods", "-o", "name")).split()) == 3

            await soon(has_three)
            assert memory(process) < MOST_MEMORY
            await kubectl(acme, "scale", "statefulset", "many", "--replicas=1")

            async def has_one() -> bool:
                return (await kubectl(acme, "get", "pods", "-o", "name")).split() == ["pod/many-0"]

            await soon(has_one)
            assert memory(process) < MOST_MEMORY
