"""Helpers for releases of Helm charts in a tenant's namespace: helm, both sides of its objects, what is left of them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from availability_kit import selector
from hollow_kubelet import environment, files
from pool_kit import Json, Pool, Space, is_running, items, read, super_of

from hack.audit import Finding, audit, read_world
from hack.testbed import Cluster, ensure
from hack.testbed.provisioner import Provisioner, storage_class
from tests.real.waiting import eventually, limit
from vcsync.api import names

CHARTS = Path(__file__).parents[1] / "charts"
SUPERS = ("r1", "r2")
CLAIMS = "persistentvolumeclaims"
BEFORE, AFTER = "registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.9"
HELM_SECONDS = 120
_WAITING = frozenset({"install", "upgrade", "rollback", "uninstall"})
"""Commands that wait for objects, with a time limit."""


class Release:
    """A release of one of the charts in `tests/real/charts`.

    Args:
        space: the tenant's namespace.
        chart: name of the chart, and of the release.
        home: folder for helm's own files.
    """

    def __init__(self, space: Space, chart: str, home: Path) -> None:
        self.space = space
        self.name = chart
        self.labels = {"app.kubernetes.io/instance": chart}
        self.chart = str(CHARTS / chart)
        self._home = home
        self._helm = ensure(["helm"])["helm"]

    def install(self, **values: Any) -> str:
        """Install the chart, and wait until its objects are ready and its hooks are done."""
        return self.helm("install", self.name, self.chart, "--wait", values=values)

    def upgrade(self, **values: Any) -> str:
        """Change values, keep the others, and wait until the objects are ready and the hooks are done."""
        return self.helm(
            "upgrade", self.name, self.chart, "--reset-then-reuse-values", "--wait", values=values
        )

    def rollback(self, revision: int) -> str:
        """Return to a revision, and wait until the objects are ready."""
        return self.helm("rollback", self.name, str(revision), "--wait")

    def uninstall(self) -> str:
        """Uninstall the release, and wait until its objects are gone."""
        return self.helm("uninstall", self.name, "--wait")

    def history(self) -> list[tuple[int, str]]:
        """Return revision and state of each revision."""
        found = json.loads(self.helm("history", self.name, "-o", "json"))
        return [(each["revision"], each["status"]) for each in found]

    def helm(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        """Run helm as the tenant's administrator, and return its output.

        Args:
            arguments: of the command.
            values: of the chart; None: the command takes none.

        Raises:
            AssertionError: it failed.
        """
        done = self.try_helm(*arguments, values=values)
        assert done.returncode == 0, (done.stdout, done.stderr, _states(self.space))
        return done.stdout

    def try_helm(
        self, *arguments: str, values: Mapping[str, Any] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run helm like `helm`, and return its result whatever it is."""
        if arguments[0] in _WAITING and not any(each.startswith("--timeout") for each in arguments):
            arguments = (*arguments, f"--timeout={int(limit(HELM_SECONDS))}s")
        if values is not None:
            arguments = (*arguments, "--values=-")
        folders = {f"HELM_{kind}_HOME": str(self._home / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(
            [str(self._helm), *arguments, "--namespace", self.space.name],
            input=json.dumps(values or {}),
            env={**os.environ, **folders, "KUBECONFIG": str(self.space.tenant.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * limit(HELM_SECONDS) + 60,
        )

    def pods(self, **labels: str) -> list[Json]:
        """Return the Pods of the release that are not being deleted."""
        query = f"labelSelector={selector({**self.labels, **labels})}"
        found = self.space.all("pods", query)
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]


def objects(cluster: Cluster, namespace: str) -> set[str]:
    """Return `RESOURCE/NAME` of all objects in a namespace, of every kind that the server has.

    Events are left out: they end by themselves.
    """
    found = set()
    for prefix, group, resource in _resources(cluster, namespaced=True):
        for each in items(cluster, f"{prefix}/namespaces/{namespace}/{resource}"):
            found.add(f"{resource}{group and '.'}{group}/{each['metadata']['name']}")
    return found


def cluster_objects(cluster: Cluster, text: str) -> set[str]:
    """Return `RESOURCE/NAME` of all objects without a namespace whose name or content contains a text."""
    found = set()
    for prefix, group, resource in _resources(cluster, namespaced=False):
        for each in items(cluster, f"{prefix}/{resource}"):
            if resource != "namespaces" and text in json.dumps(each):
                found.add(f"{resource}{group and '.'}{group}/{each['metadata']['name']}")
    return found


class Traces:
    """What a namespace has on all sides before a release, to be compared with what is left of it."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._tenant = objects(space.tenant, space.name)
        self._below = {each: objects(space.pool.supers[each], space.super_name) for each in SUPERS}

    def in_tenant(self) -> set[str]:
        """Return what is new in the tenant's namespace, and the tenant's other objects that name it."""
        space = self.space
        return (objects(space.tenant, space.name) - self._tenant) | cluster_objects(space.tenant, space.name)

    def below(self) -> dict[str, set[str]]:
        """Return what is new in the super namespace of each super cluster, and volumes of it."""
        space = self.space
        found = {}
        for each in SUPERS:
            cluster = space.pool.supers[each]
            found[each] = objects(cluster, space.super_name) - self._below[each]
            found[each] |= cluster_objects(cluster, space.super_name)
        return {each: new for each, new in found.items() if new}


def all_current(release: Release, count: int, image: str, **labels: str) -> list[Json]:
    """Check that exactly `count` Pods run, with this image on both sides, and return them."""
    found = release.pods(**labels)
    assert len(found) == count, [each["metadata"]["name"] for each in found]
    for each in found:
        assert is_running(each), each["status"]
        assert each["spec"]["containers"][0]["image"] == image
        below = release.space.there(super_of(each), "pods", each["metadata"]["name"])
        assert below is not None
        assert is_running(below)
        assert below["spec"]["containers"][0]["image"] == image
    return found


def differences(space: Space) -> list[Finding]:
    """Return what the audit of the whole pool finds about a namespace."""
    bed = space.pool.bed
    world = read_world(
        bed.meta.kubeconfig,
        {name: cluster.kubeconfig for name, cluster in bed.supers.items()},
        {name: cluster.kubeconfig for name, cluster in bed.tenants.items()},
    )
    return [each for each in audit(world) if each.namespace in (space.name, space.super_name)]


def agreed(space: Space) -> bool:
    """Return whether tenant and super clusters agree about a namespace, and nothing of Helm itself is below."""
    found = differences(space)
    assert not found, found
    secrets = [each["type"] for super_id in SUPERS for each in space.all_there(super_id, "secrets")]
    assert "helm.sh/release.v1" not in secrets
    return True


def left_nothing(before: Traces) -> None:
    """Wait until nothing of a release is left on any side, and check that no object met one of the operator."""
    eventually(lambda: before.in_tenant() == set())
    eventually(lambda: before.below() == {})
    assert [each for each in before.space.all("events") if each["reason"] == "NameTaken"] == []


def claims(space: Space) -> set[str]:
    return {each["metadata"]["name"] for each in space.all(CLAIMS)}


def settings_of(space: Space, pod: Json) -> dict[str, str]:
    """Return the environment of the first container of a Pod, from its copy."""
    cluster = space.pool.supers[super_of(pod)]
    below = space.there(super_of(pod), "pods", pod["metadata"]["name"])
    assert below is not None
    return environment(cluster, below)


def files_of(space: Space, pod: Json) -> dict[str, str]:
    """Return the files of the first container of a Pod, from its copy."""
    cluster = space.pool.supers[super_of(pod)]
    below = space.there(super_of(pod), "pods", pod["metadata"]["name"])
    assert below is not None
    return {path: content.decode() for path, content in files(cluster, below).items()}


def everywhere(space: Space, plural: str, name: str, group: str = "") -> list[Json]:
    """Return the copies of an object, if each super cluster has one."""
    found = [space.there(each, plural, name, group) for each in SUPERS]
    copies = [each for each in found if each is not None]
    assert len(copies) == len(found), f"{plural} {name}: {len(copies)} copies"
    return copies


def prepared(space: Space) -> None:
    """Wait until a namespace has everything that it has by itself, on all sides."""
    eventually(lambda: read(space.tenant, "/apis/storage.k8s.io/v1/storageclasses/fast"))
    eventually(lambda: space.get("configmaps", "kube-root-ca.crt"))
    eventually(lambda: everywhere(space, "serviceaccounts", "default"))
    eventually(lambda: everywhere(space, "configmaps", names.TENANT_ROOT_CA))


@contextmanager
def with_storage(pool: Pool) -> Iterator[Pool]:
    """Publish the class `fast` in both super clusters, as their operator, until the block ends."""
    body = json.dumps(storage_class("fast"))
    with ExitStack() as stack:
        for cluster in pool.supers.values():
            cluster.kubectl("apply", "-f", "-", input=body)
            stack.enter_context(Provisioner(cluster))
        yield pool
    for cluster in pool.supers.values():
        cluster.kubectl("delete", "storageclass", "fast")


def _resources(cluster: Cluster, *, namespaced: bool) -> list[tuple[str, str, str]]:
    """Return path prefix, group and plural of all resources that can be listed."""
    found = (read(cluster, "/apis") or {})["groups"]
    groups = [("/api/v1", "")]
    groups += [(f"/apis/{each['preferredVersion']['groupVersion']}", each["name"]) for each in found]
    return [
        (prefix, group, each["name"])
        for prefix, group in groups
        if group != "events.k8s.io"
        for each in (read(cluster, prefix) or {}).get("resources", ())
        if each["namespaced"] == namespaced
        and "list" in each["verbs"]
        and "delete" in each["verbs"]
        and (group, each["name"]) != ("", "events")
    ]


def _states(space: Space) -> list[Any]:
    """Return what tells why a release is not ready."""
    return [
        (each["metadata"]["name"], each["metadata"].get("labels"), each.get("status"))
        for each in space.all("pods")
        if not is_running(each)
    ] + [each["message"] for each in space.all("events") if each.get("type") == "Warning"]
