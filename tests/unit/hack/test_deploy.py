"""The Deployments in config/deploy run valid commands, as existing accounts, in a sandbox."""

import copy
from typing import Any

import pytest
import yaml

from hack.generate import CONFIG
from vcsync.api import names, rbac
from vcsync.cli.run.commands import run, tuning_of
from vcsync.status.server import parse_listen

DEPLOYMENTS = {
    path.stem: yaml.safe_load(path.read_text())
    for path in (CONFIG / "deploy").glob("*.yaml")
    if path.stem != "kustomization"
}

WEBHOOK = CONFIG / "deploy/placement-webhook"


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
    assert container["ports"] == [{"name": "status", "containerPort": 8080}]
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "status", "scheme": "HTTPS"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "status", "scheme": "HTTPS"}


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


def with_webhook() -> dict[str, Any]:
    """Return the pod scheduler's Deployment with the patch of the component, which only appends to lists."""
    (entry,) = yaml.safe_load((WEBHOOK / "kustomization.yaml").read_text())["patches"]
    made = copy.deepcopy(DEPLOYMENTS["podscheduler"])
    assert entry["target"] == {"kind": made["kind"], "name": made["metadata"]["name"]}
    for change in yaml.safe_load(entry["patch"]):
        *path, last = change["path"].removeprefix("/").split("/")
        assert (change["op"], last) == ("add", "-")
        found = made
        for step in path:
            found = found[int(step) if isinstance(found, list) else step]
        assert isinstance(found, list)
        found.append(change["value"])
    return made


def test_the_placement_webhook_is_off_unless_it_is_wanted() -> None:
    assert "components" not in yaml.safe_load((CONFIG / "deploy/kustomization.yaml").read_text())
    assert not any("placement" in each for each in container_of("podscheduler")["args"])


def test_the_placement_webhook_is_served_at_the_port_of_its_service() -> None:
    (container,) = with_webhook()["spec"]["template"]["spec"]["containers"]
    service, slice_ = yaml.safe_load_all((WEBHOOK / "service.yaml").read_text())
    fields = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in container["env"]}
    assert fields["POD_IP"] == "status.podIP"
    options = [each.replace("$(POD_IP)", "10.0.0.7") for each in container["args"][2:]]
    given = run.commands["podscheduler"].make_context("podscheduler", options).params
    tuning = tuning_of(given)
    assert tuning.placement_webhook is not None
    host, port = tuning.placement_webhook
    assert (host, tuning.placement_endpoint) == ("0.0.0.0", "10.0.0.7")
    assert container["ports"][1:] == [{"name": "placement", "containerPort": port}]
    assert service["spec"]["ports"] == [{"name": "placement", "port": port}]
    assert slice_["ports"] == [{"name": "placement", "port": port, "protocol": "TCP"}]


def test_the_service_of_the_placement_webhook_leads_only_where_the_leader_says() -> None:
    service, slice_ = yaml.safe_load_all((WEBHOOK / "service.yaml").read_text())
    assert "selector" not in service["spec"], "it would lead to replicas that stand by"
    assert "endpoints" not in slice_, "'kubectl apply' would take the leader out"
    for each in (service, slice_):
        assert each["metadata"]["name"] == names.PLACEMENT_SERVICE
        assert each["metadata"]["namespace"] == names.SYSTEM_NAMESPACE
    assert slice_["metadata"]["labels"]["kubernetes.io/service-name"] == names.PLACEMENT_SERVICE
