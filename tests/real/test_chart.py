"""The chart: Helm accepts it, it makes what kustomize makes, and an API server accepts all of its objects."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from hack.generate import CONFIG
from hack.testbed import TestBed, ensure
from vcsync.cli.command.main import vcsync

Json = dict[str, Any]
Key = tuple[str, str, str]
CHART = CONFIG / "chart"
NAMESPACE = "vcsync-system"
AS_KUSTOMIZE: Json = {"superClusters": [{"id": "r1", "credentialRoles": True}]}
"""Values of the chart with the super cluster of config/deploy."""
EVERYTHING: Json = {
    "superClusters": [{"id": "r1"}, {"id": "r2", "replicas": 0, "extraArgs": ["--patrol-seconds=60"]}],
    "placementWebhook": {"enabled": True},
    "kubeletApi": {"enabled": True},
    "controlPlane": {
        "enabled": True,
        "replicas": 2,
        "names": ["api.example.com"],
        "etcd": {"url": "https://etcd:2379", "secretName": "etcd-client"},
    },
    "priorityClass": {"create": True},
    "image": {"pullSecrets": ["registry"]},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "control-plane", "operator": "Exists"}],
    "networkPolicies": {"enabled": True, "statusFrom": [{"namespaceSelector": {}}]},
    "monitoring": {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}},
}
"""Values that make every object that the chart can make."""
OF_PROMETHEUS = "monitoring.coreos.com/v1"
"""Version of objects whose definitions an API server of the test bed lacks."""


def helm(tmp_path: Path, *arguments: str, values: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(dict(values)))
    folders = {f"HELM_{kind}_HOME": str(tmp_path / kind) for kind in ("CACHE", "CONFIG", "DATA")}
    return subprocess.run(
        [str(ensure(["helm"])["helm"]), *arguments, "--namespace", NAMESPACE, "--values", str(file)],
        env={**os.environ, **folders},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def rendered(tmp_path: Path, values: Mapping[str, Any]) -> list[Json]:
    done = helm(tmp_path, "template", "vcsync", str(CHART), values=values)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def by_key(objects: list[Json]) -> dict[Key, Json]:
    found = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in objects
    }
    assert len(found) == len(objects)
    return found


def kustomized() -> list[Json]:
    command = [str(ensure(["kubectl"])["kubectl"]), "kustomize", str(CONFIG / "deploy")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return list(yaml.safe_load_all(done.stdout))


@pytest.mark.parametrize("values", [{}, AS_KUSTOMIZE, EVERYTHING], ids=["default", "kustomize", "everything"])
def test_helm_lint_finds_nothing(tmp_path: Path, values: Json) -> None:
    done = helm(tmp_path, "lint", "--strict", str(CHART), values=values)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


def test_the_chart_makes_the_objects_of_kustomize(tmp_path: Path) -> None:
    ours, theirs = by_key(rendered(tmp_path, AS_KUSTOMIZE)), by_key(kustomized())
    # Helm makes the namespace of a release itself.
    del theirs["Namespace", "", NAMESPACE]
    only_ours = ours.keys() - theirs.keys()
    assert {kind for kind, _, _ in only_ours} == {"PodDisruptionBudget", "Pod"}, only_ours
    assert theirs.keys() <= ours.keys()
    for key, wanted in theirs.items():
        made = ours[key]
        if key[0] in ("Namespace", "CustomResourceDefinition"):
            # Objects of tenants would go with them.
            assert made["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
            if not made["metadata"]["annotations"]:
                del made["metadata"]["annotations"]
        assert made == wanted, key


def test_the_placement_webhook_is_that_of_kustomize(tmp_path: Path) -> None:
    ours = by_key(rendered(tmp_path, AS_KUSTOMIZE | {"placementWebhook": {"enabled": True}}))
    folder = CONFIG / "deploy/placement-webhook"
    for wanted in yaml.safe_load_all((folder / "service.yaml").read_text()):
        assert ours[wanted["kind"], NAMESPACE, wanted["metadata"]["name"]] == wanted
    [entry] = yaml.safe_load((folder / "kustomization.yaml").read_text())["patches"]
    [container] = ours["Deployment", NAMESPACE, "vcsync-podscheduler"]["spec"]["template"]["spec"][
        "containers"
    ]
    for change in yaml.safe_load(entry["patch"]):
        field = change["path"].removeprefix("/spec/template/spec/containers/0/").removesuffix("/-")
        assert change["value"] in container[field]


def test_each_super_cluster_has_a_syncer(tmp_path: Path) -> None:
    ours = by_key(rendered(tmp_path, EVERYTHING))
    for name, replicas in (("r1", 2), ("r2", 0)):
        made = ours["Deployment", NAMESPACE, f"vcsync-syncer-{name}"]
        assert made["spec"]["replicas"] == replicas
        [container] = made["spec"]["template"]["spec"]["containers"]
        assert f"--super-cluster={name}" in container["args"]
    assert container["args"][-1] == "--patrol-seconds=60"


def test_all_pods_meet_the_restricted_profile_and_spread(tmp_path: Path) -> None:
    for made in rendered(tmp_path, EVERYTHING):
        if made["kind"] not in ("Deployment", "StatefulSet", "Pod"):
            continue
        pod = made["spec"] if made["kind"] == "Pod" else made["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert made["kind"] == "Pod" or pod["topologySpreadConstraints"]


def test_every_command_is_accepted(tmp_path: Path) -> None:
    """Its files exist, and its addresses are those of a Pod."""
    (tmp_path / "file").touch()
    checked = 0
    for made in rendered(tmp_path, EVERYTHING):
        pod = (
            made["spec"]
            if made["kind"] == "Pod"
            else made.get("spec", {}).get("template", {}).get("spec", {})
        )
        for container in (*pod.get("containers", ()), *pod.get("initContainers", ())):
            mounted = {each["mountPath"] for each in container.get("volumeMounts", ())}
            arguments = [each.replace("$(POD_IP)", "10.0.0.7") for each in container.get("args", ())]
            for position, each in enumerate(arguments):
                path = Path(each.partition("=")[2])
                if path.is_absolute() and not each.startswith("--etcd-prefix="):
                    assert mounted & {str(parent) for parent in (path, *path.parents)}, each
                    arguments[position] = each.replace(
                        str(path), str(tmp_path if "--data=" in each else tmp_path / "file")
                    )
            context_of([*container["command"][1:], *arguments])
            checked += 1
    assert checked == 8


def context_of(arguments: list[str]) -> None:
    """Parse arguments of the command line, without running the command."""
    command: click.Command = vcsync
    context = click.Context(vcsync)
    while isinstance(command, click.Group):
        name, *arguments = arguments
        found = command.get_command(context, name)
        assert found is not None, name
        command = found
    command.make_context(command.name, arguments)


def test_no_object_holds_a_credential(tmp_path: Path) -> None:
    assert not [each for each in rendered(tmp_path, EVERYTHING) if each["kind"] == "Secret"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"superClusters": [{"id": "R1"}]}, "/superClusters/0/id"),
        ({"superClusters": [{"name": "r1"}]}, "/superClusters/0"),
        ({"superClusters": [{"id": "r1"}, {"id": "r1"}]}, "r1 occurs twice"),
        ({"nsscheduler": {"replica": 3}}, "replica"),
        ({"controlPlane": {"enabled": True, "replicas": 2}}, "needs controlPlane.etcd.url"),
    ],
)
def test_wrong_values_are_refused_with_their_field(tmp_path: Path, values: Json, reason: str) -> None:
    done = helm(tmp_path, "template", "vcsync", str(CHART), values=values)
    assert done.returncode != 0
    assert reason in done.stderr


def test_an_api_server_accepts_every_object(testbed: TestBed, tmp_path: Path) -> None:
    objects = [each for each in rendered(tmp_path, EVERYTHING) if each["apiVersion"] != OF_PROMETHEUS]
    definitions = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    assert len(definitions) >= 6
    server = testbed.supers["r2"]
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each}}
        for each in {NAMESPACE, *(each["metadata"].get("namespace", NAMESPACE) for each in objects)}
    ]
    there = {each["metadata"]["name"] for each in server.call("GET", "/api/v1/namespaces")[1]["items"]}
    missing = [each for each in namespaces if each["metadata"]["name"] not in there]
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    try:
        for each in missing:
            server.kubectl("create", "-f", "-", input=json.dumps(each))
        # The admission of Pods looks for their accounts.
        server.kubectl("create", "serviceaccount", "vcsync-nsscheduler", "--namespace", NAMESPACE)
        options = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
        answer = server.kubectl("apply", *options, "-f", str(file))
    finally:
        for each in missing:
            server.kubectl("delete", "namespace", each["metadata"]["name"])
    assert answer.count("(server dry run)") == len(objects)
