"""A syncer binds a Pod and writes its status in one event of kubectl's watch; no other identity finds the subresource."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from hack.embedded import ControlPlane
from tests.real.kubectl_kit import Kubectl
from tests.real.waiting import eventually
from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import Forbidden, NotFound
from vcsync.kube.resources import PODS
from vcsync.syncer.executor import Executor
from vcsync.syncer.kinds.plan import Bind

SYNCER = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(names.ROLE_SYNCER)}"
NODE = "node-1.r1"
RUNNING = {"phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]}
BOUND = {"spec": {"nodeName": NODE}, "status": RUNNING}


class Place:
    """A control plane with the tenants acme and umbrella, and kubectl as acme's administrator."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.admin = plane.create("acme")
        plane.create("umbrella")
        self.kubectl = Kubectl(self.admin)

    def role(self, role: str, tenant: str = "acme") -> Path:
        """Return the kubeconfig of one of vcsync's roles, once it is usable."""
        path = self.plane.directory / f"{tenant}-{role}.kubeconfig"
        path.write_text(self.plane.vcsync("tenant", "kubeconfig", tenant, "--role", role))
        eventually(lambda: Kubectl(path).run("get", "pods", "-A").returncode == 0)
        return path

    def on_acme(self, kubeconfig: Path, **user: Any) -> Path:
        """Return a kubeconfig whose requests go to acme's URL, as another user or impersonating one."""
        content = yaml.safe_load(kubeconfig.read_text())
        content["clusters"][0]["cluster"]["server"] = f"{self.plane.url}/tenants/acme"
        content["users"][0]["user"].update(user)
        path = kubeconfig.with_suffix(".other")
        path.write_text(yaml.safe_dump(content))
        return path

    def pod(self, name: str) -> dict[str, Any]:
        """Create a Pod in acme."""
        spec = {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        eventually(lambda: self.kubectl.run("get", "serviceaccount", "default").returncode == 0)
        self.kubectl("create", given=body)
        return self.read(name)

    def read(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.kubectl.json("get", "pod", name)
        return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with ControlPlane(tmp_path_factory.mktemp("bound")) as plane:
        made = Place(plane)
        made.kubectl("create", "serviceaccount", "default")
        yield made


async def sent(kubeconfig: Path, name: str) -> None:
    """Send the request of a syncer with the credentials of a kubeconfig."""
    async with Client(Connection.from_kubeconfig_file(kubeconfig), name="attacker") as client:
        await client.patch(PODS, name, BOUND, "default", subresource=names.BOUND_STATUS)


async def test_the_node_and_the_status_arrive_in_one_event(place: Place) -> None:
    made = place.pod("one")
    command = [*place.kubectl.command, "get", "pods", "-w", "-o", "json", "--output-watch-events"]
    log = place.plane.directory / "events.json"
    with log.open("w") as out, subprocess.Popen(command, stdout=out) as watch:
        try:
            eventually(lambda: '"ADDED"' in log.read_text())
            async with Client(Connection.from_kubeconfig_file(place.role("syncer")), name="acme") as client:
                observed: list[Any] = []
                executor = Executor(
                    tenant_client=client,
                    super_client=client,
                    caches=SimpleNamespace(observe=lambda *change: observed.append(change)),  # type: ignore[arg-type]
                    ensure_node=None,  # type: ignore[arg-type]
                )
                uid = made["metadata"]["uid"]
                await executor.execute(
                    Bind(
                        "default",
                        "one",
                        uid,
                        made["metadata"]["resourceVersion"],
                        NODE,
                        {"metadata": {"uid": uid}, "status": RUNNING},
                    ),
                    None,  # type: ignore[arg-type]
                    confirm=None,  # type: ignore[arg-type]
                    notify=None,  # type: ignore[arg-type]
                )
            place.kubectl("annotate", "pod", "one", "last=yes")
            eventually(lambda: '"last"' in log.read_text())
        finally:
            watch.terminate()
    events, text = [], log.read_text()
    while text := text.lstrip():
        event, end = json.JSONDecoder().raw_decode(text)
        text = text[end:]
        pod = event["object"]
        events.append((event["type"], pod["spec"].get("nodeName"), pod["status"].get("phase")))
    assert events == [
        ("ADDED", None, "Pending"),
        ("MODIFIED", NODE, "Running"),
        ("MODIFIED", NODE, "Running"),
    ]
    assert len(observed) == 1, "the syncer's cache has the answer of the one write"


async def test_no_other_identity_finds_the_subresource(place: Place) -> None:
    made = place.pod("two")
    with pytest.raises(NotFound, match=r"could not find the requested resource"):
        await sent(place.admin, "two")
    with pytest.raises(Forbidden, match=rf"cannot patch resource .*pods/{names.BOUND_STATUS}"):
        await sent(place.on_acme(place.admin, **{"as": SYNCER}), "two")
    with pytest.raises(Forbidden):
        await sent(place.plane.kubeconfig("acme", user="eve"), "two")
    with pytest.raises(Forbidden):
        await sent(place.role("podscheduler"), "two")
    with pytest.raises(Forbidden):
        await sent(place.on_acme(place.role("syncer", "umbrella")), "two")
    assert place.read("two") == made


async def test_a_syncer_that_may_not_bind_may_not_do_both(place: Place) -> None:
    made = place.pod("three")
    syncer = place.role("syncer")
    role = next(
        each["metadata"]["name"]
        for each in place.kubectl.json("get", "clusterroles")["items"]
        if any("pods/binding" in rule.get("resources", ()) for rule in each["rules"] or ())
        and each["metadata"]["name"].startswith("vcsync")
    )
    whole = place.kubectl.json("get", "clusterrole", role)
    rules = [rule for rule in whole["rules"] if rule.get("resources") != ["pods/binding"]]
    assert len(rules) == len(whole["rules"]) - 1
    place.kubectl("patch", "clusterrole", role, "--type=merge", "-p", json.dumps({"rules": rules}))
    try:
        with pytest.raises(Forbidden, match=r"cannot create resource .*pods/binding"):
            await sent(syncer, "three")
        assert place.read("three") == made
    finally:
        place.kubectl(
            "patch", "clusterrole", role, "--type=merge", "-p", json.dumps({"rules": whole["rules"]})
        )
    await sent(syncer, "three")
    assert place.read("three")["spec"]["nodeName"] == NODE


def test_no_document_names_the_subresource(place: Place) -> None:
    for path in ("/api/v1", "/openapi/v2", "/openapi/v3/api/v1"):
        text = place.kubectl("get", "--raw", path)
        assert "binding" in text
        assert names.BOUND_STATUS not in text
