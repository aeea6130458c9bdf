"""The Deployments in config/deploy run valid commands, as existing accounts, in a sandbox."""

from typing import Any

import pytest
import yaml

from hack.generate import CONFIG
from vcsync.api import names, rbac
from vcsync.cli.run.commands import run
from vcsync.status.server import parse_listen

DEPLOYMENTS = {
    path.stem: yaml.safe_load(path.read_text())
    for path in (CONFIG / "deploy").glob("*.yaml")
    if path.stem != "kustomization"
}


def container_of(name: str) -> dict[str, Any]:
    (container,) = DEPLOYMENTS[name]["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def test_there_is_one_for_each_role() -> None:
    roles = {d["metadata"]["labels"]["app.kubernetes.io/component"] for d in DEPLOYMENTS.values()}
    assert roles == set(names.META_ROLES)


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_the_command_accepts_its_arguments(name: str) -> None:
    container = container_of(name)
    assert container["command"] == ["vcsync"]
    group, role, *options = container["args"]
    assert (group, role) == ("run", container["name"])
    context = run.commands[role].make_context(role, options)
    assert parse_listen(context.params["listen"]) == ("0.0.0.0", 8080)
    assert context.params["leader_elect"] is True


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_it_runs_as_the_account_of_its_role(name: str) -> None:
    pod = DEPLOYMENTS[name]["spec"]["template"]["spec"]
    accounts = {m["metadata"]["name"] for m in rbac.meta_manifests() if m["kind"] == "ServiceAccount"}
    assert pod["serviceAccountName"] == names.service_account(container_of(name)["name"])
    assert pod["serviceAccountName"] in accounts
    assert DEPLOYMENTS[name]["metadata"]["namespace"] == names.SYSTEM_NAMESPACE


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_probes_use_the_served_port(name: str) -> None:
    container = container_of(name)
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_the_container_cannot_affect_its_node(name: str) -> None:
    pod = DEPLOYMENTS[name]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container_of(name)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert all(set(volume) == {"name", "emptyDir"} for volume in pod["volumes"])


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_containers_of_one_pod_share_the_folder_where_a_successor_looks_for_its_predecessors_lock(
    name: str,
) -> None:
    pod = DEPLOYMENTS[name]["spec"]["template"]["spec"]
    (volume,) = (each for each in pod["volumes"] if "emptyDir" in each)
    mounts = {mount["mountPath"]: mount["name"] for mount in container_of(name)["volumeMounts"]}
    assert mounts["/tmp"] == volume["name"]
