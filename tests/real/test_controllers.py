"""Our controllers beside an embedded control plane, as two processes: namespaces end, owners take theirs along."""

import asyncio
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.embedded import ControlPlane
from hack.testbed.processes import free_ports
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.envelope import untyped
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)

PATIENCE = 30.0
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
        listen = f"127.0.0.1:{free_ports(1)[0]}"
        command = [sys.executable, "-m", "vcsync", "run", "controllers", "--no-leader-elect"]
        with (folder / "controllers.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--data", str(plane.data), "--listen", listen], stdout=log, stderr=log
            )
        try:
            ready(f"http://{listen}/readyz")
            yield found
        finally:
            process.terminate()
            process.wait(30)


def ready(url: str) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            assert time.monotonic() < end, "the controllers are not ready"
            time.sleep(0.05)


@pytest.fixture
async def acme(kubeconfig: Path) -> AsyncIterator[Client]:
    async with Client(Connection.from_kubeconfig_file(kubeconfig), name="acme") as client:
        yield client


async def until(happened: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await happened():
            await asyncio.sleep(0.05)


async def gone(client: Client, resource: Resource, name: str, namespace: str = "") -> bool:
    try:
        await client.get(resource, name, namespace)
    except NotFound:
        return True
    return False


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
    await until(lambda: _settled(client, namespace))
    await client.create(DEPLOYMENTS, deployment(name), namespace)
    await until(lambda: _pods(client, name, namespace, 2))


async def _settled(client: Client, namespace: str) -> bool:
    return not await gone(client, CONFIG_MAPS, "kube-root-ca.crt", namespace)


async def _pods(client: Client, name: str, namespace: str, count: int) -> bool:
    return len(await client.list(PODS, namespace, label_selector=f"app={name}")) == count


async def test_a_namespace_takes_all_that_is_in_it_along(acme: Client) -> None:
    await acme.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
    await acme.create(NAMESPACES, {"metadata": {"name": "shop"}})
    await deployed(acme, "web", "shop")

    async def served() -> bool:
        try:
            await acme.create(WIDGETS, {"metadata": {"name": "one"}}, "shop")
        except NotFound:
            return False
        return True

    await until(served)
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    await acme.create(CONFIG_MAPS, held, "shop")
    await acme.delete(NAMESPACES, "shop")

    async def told() -> bool:
        namespace = await acme.get(NAMESPACES, "shop")
        return b"example.com/hold in 1 resource instances" in namespace.status

    await until(told)
    assert await gone(acme, WIDGETS, "one", "shop")
    assert await gone(acme, DEPLOYMENTS, "web", "shop")
    await acme.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, "shop")
    await until(lambda: gone(acme, NAMESPACES, "shop"))


async def test_dependents_go_after_their_owner(acme: Client) -> None:
    await deployed(acme, "background")
    await acme.delete(DEPLOYMENTS, "background", "default", propagation="Background")
    await until(lambda: _pods(acme, "background", "default", 0))
    assert not await acme.list(REPLICA_SETS, "default", label_selector="app=background")


async def test_dependents_go_before_their_owner(acme: Client) -> None:
    await deployed(acme, "foreground")
    left = await acme.delete(DEPLOYMENTS, "foreground", "default", propagation="Foreground")
    assert left is not None
    await until(lambda: gone(acme, DEPLOYMENTS, "foreground", "default"))
    assert await _pods(acme, "foreground", "default", 0)
    assert not await acme.list(REPLICA_SETS, "default", label_selector="app=foreground")


async def test_dependents_stay_without_their_owner(acme: Client) -> None:
    await deployed(acme, "orphans")
    await acme.delete(DEPLOYMENTS, "orphans", "default", propagation="Orphan")
    await until(lambda: gone(acme, DEPLOYMENTS, "orphans", "default"))
    [replicas] = await acme.list(REPLICA_SETS, "default", label_selector="app=orphans")
    assert not replicas.owners
    assert await _pods(acme, "orphans", "default", 2)


async def test_custom_resources_own_and_are_owned(acme: Client) -> None:
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

    await until(served)
    first = await acme.get(gears, "first", "default")
    owner = {"apiVersion": "example.com/v1", "kind": "Gear", "name": "first", "uid": first.uid}
    second = await acme.create(gears, {"metadata": {"name": "second", "ownerReferences": [owner]}}, "default")
    owner |= {"name": "second", "uid": second.uid}
    third = {"metadata": {"name": "third", "ownerReferences": [owner]}}
    await acme.create(CONFIG_MAPS, third, "default")
    await acme.delete(gears, "first", "default")
    await until(lambda: gone(acme, CONFIG_MAPS, "third", "default"))
    assert await gone(acme, gears, "second", "default")


async def test_owners_elsewhere_or_of_another_uid_are_none(acme: Client) -> None:
    await acme.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
    there = await acme.create(CONFIG_MAPS, {"metadata": {"name": "there"}}, "elsewhere")
    here = await acme.create(CONFIG_MAPS, {"metadata": {"name": "here"}}, "default")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "there", "uid": there.uid}
    for name, uid in (("there", there.uid), ("here", f"{here.uid[:-1]}x")):
        owners = [{**owner, "name": name, "uid": uid}]
        made = {"metadata": {"name": f"of-{name}", "ownerReferences": owners}}
        await acme.create(SECRETS, made, "default")
        await until(lambda name=name: gone(acme, SECRETS, f"of-{name}", "default"))  # type: ignore[misc]
    owners = [owner]
    await acme.create(CLUSTER_ROLES, {"metadata": {"name": "owned", "ownerReferences": owners}, "rules": []})

    async def told() -> bool:
        events = await acme.list(EVENTS, "default")
        found = [each for each in events if b'"OwnerRefInvalidNamespace"' in each.rest]
        return any(b'"ClusterRole"' in each.rest for each in found) and len(found) > 1

    await until(told)
    assert not await gone(acme, CLUSTER_ROLES, "owned")


async def test_quotas_count_what_is_there_and_give_back_what_is_gone(acme: Client) -> None:
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

    async def told(**wanted: str) -> bool:
        return wanted.items() <= (await used()).items()

    await until(lambda: told(pods="2", secrets="0"))
    assert (await used())["count/deployments.apps"] == "1"
    assert (await used())["requests.cpu"] == "0"
    await acme.create(SECRETS, {"metadata": {"name": "s"}}, "limited")
    await until(lambda: told(secrets="1"))
    await acme.delete(SECRETS, "s", "limited")
    await until(lambda: told(secrets="0"))
    await acme.patch(DEPLOYMENTS, "counted", {"spec": {"replicas": 0}}, "limited")
    await until(lambda: told(pods="0"))


async def run(client: Client, name: str, address: str) -> None:
    """Say of a Pod what a kubelet would."""
    await until(lambda: _there(client, PODS, name))
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await client.patch(PODS, name, {"status": status}, "default", subresource="status")


async def _there(client: Client, resource: Resource, name: str) -> bool:
    return not await gone(client, resource, name, "default")


async def test_numbered_pods_come_in_order_and_stand_behind_their_service_and_budget(acme: Client) -> None:
    await until(lambda: _settled(acme, "default"))
    labels, port = {"app": "db"}, {"name": "sql", "port": 5432}
    service = {"clusterIP": "None", "selector": labels, "ports": [port]}
    await acme.create(SERVICES, {"metadata": {"name": "db"}, "spec": service}, "default")
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    await acme.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "db"}, "spec": budget}, "default")
    body = deployment("db")
    await acme.create(STATEFUL_SETS, {**body, "spec": {**body["spec"], "serviceName": "db"}}, "default")
    addresses = ["10.0.0.10", "10.0.0.11"]
    await until(lambda: _there(acme, PODS, "db-0"))
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
        told = sorted(each["ip"] for each in subset.get("addresses") or ())
        return found == told == addresses and allowed.get("disruptionsAllowed") == 1

    await until(reached)
    complete = untyped((await acme.get(STATEFUL_SETS, "db", "default")).status)
    assert complete["currentRevision"] == complete["updateRevision"]
