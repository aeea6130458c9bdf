"""Stands in for an operator's CSI driver: makes a volume for each claim of its StorageClasses in a super cluster."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from hack.testbed.cluster import Cluster, KubectlError
from vcsync.api import names

PROVISIONER = "disks.example.com"
HIDDEN_PATH = "/srv/disks-of-the-operator"
CLONE_OF = "disks.example.com/clone-of"
"""Annotation on a volume of the operator: the volume that it is a clone of, or the content of the snapshot."""
_LOOK_SECONDS = 0.2


def storage_class(name: str, *, public: bool = True, **fields: Any) -> dict[str, Any]:
    """Return a StorageClass of the operator."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "labels": {names.SUPER_PUBLIC: names.TRUE} if public else {}},
        "provisioner": PROVISIONER,
        "parameters": {"server": "10.66.0.9"},
        "allowVolumeExpansion": True,
        **fields,
    }


class Provisioner:
    """Provisions volumes of one cluster in a thread, as an external provisioner does.

    Args:
        cluster: the super cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.broken: set[str] = set()
        """StorageClasses whose claims get no volumes, but Events that say so."""
        self.stuck: dict[str, dict[str, Any]] = {}
        """StorageClass -> status of claims of it that wait for an expansion, which does not end."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Provisioner:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            with suppress(
                OSError, http.client.HTTPException
            ):  # the server may be away; the next look sees more
                self._look()

    def _look(self) -> None:
        for claim in self._items("/api/v1/persistentvolumeclaims"):
            self._provision(claim)
        for volume in self._items("/api/v1/persistentvolumes"):
            if (volume.get("status") or {}).get("phase") == "Released" and _deletes(volume):
                self._cluster.call("DELETE", f"/api/v1/persistentvolumes/{volume['metadata']['name']}")

    def _items(self, path: str) -> list[dict[str, Any]]:
        code, found = self._cluster.call("GET", path)
        return list(found["items"]) if code == 200 else []

    def _provision(self, claim: dict[str, Any]) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        annotations = metadata.get("annotations") or {}
        if annotations.get("volume.kubernetes.io/storage-provisioner") != PROVISIONER:
            return
        if "volumeName" in spec:
            self._resize(claim)
            return
        if spec["storageClassName"] in self.broken:
            self._report_failure(claim)
            return
        annotations = {"pv.kubernetes.io/provisioned-by": PROVISIONER}
        if (source := spec.get("dataSource")) is not None:
            found = self._volume_of(metadata["namespace"], source)
            if not found:
                return
            annotations[CLONE_OF] = found
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": f"disk-{metadata['uid']}",
                "annotations": annotations,
            },
            "spec": {
                "capacity": spec["resources"]["requests"],
                "accessModes": spec["accessModes"],
                "storageClassName": spec["storageClassName"],
                "persistentVolumeReclaimPolicy": "Delete",
                "hostPath": {"path": f"{HIDDEN_PATH}/{metadata['uid']}"},
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": metadata["namespace"],
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                },
            },
        }
        self._cluster.call("POST", "/api/v1/persistentvolumes", volume)

    def _volume_of(self, namespace: str, source: dict[str, Any]) -> str:
        """Return the volume of a claim, or the content of a snapshot, as provisioners look for a source; "" if it has none."""
        if source["kind"] == "VolumeSnapshot":
            path = f"/apis/{source['apiGroup']}/v1/namespaces/{namespace}/volumesnapshots/{source['name']}"
            code, snapshot = self._cluster.call("GET", path)
            status = (snapshot.get("status") or {}) if code == 200 else {}
            return str(status["boundVolumeSnapshotContentName"]) if status.get("readyToUse") else ""
        if source["kind"] != "PersistentVolumeClaim":
            return ""
        code, found = self._cluster.call(
            "GET", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{source['name']}"
        )
        return str(found["spec"].get("volumeName", "")) if code == 200 else ""

    def _report_failure(self, claim: dict[str, Any]) -> None:
        """Report that a claim cannot be provisioned, as an external provisioner does: one Event with a growing count."""
        metadata = claim["metadata"]
        name = f"{metadata['name']}.{metadata['uid']}"
        about = {key: metadata[key] for key in ("name", "namespace", "uid")}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **about},
            "type": "Warning",
            "reason": "ProvisioningFailed",
            "message": f"failed to provision volume: {HIDDEN_PATH} has no space left",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "source": {"component": PROVISIONER},
        }
        self._cluster.call("POST", f"/api/v1/namespaces/{metadata['namespace']}/events", event)

    def _resize(self, claim: dict[str, Any]) -> None:
        """Grow a volume at once, as an external resizer does."""
        asked = claim["spec"]["resources"]["requests"]
        if (claim.get("status") or {}).get("capacity") in (None, asked):
            return
        metadata, volume = claim["metadata"], claim["spec"]["volumeName"]
        if (status := self.stuck.get(claim["spec"]["storageClassName"])) is not None:
            self._write_status(metadata, status)
            return
        try:
            self._cluster.kubectl("patch", "pv", volume, "-p", json.dumps({"spec": {"capacity": asked}}))
        except KubectlError:
            return  # it has changed; the next look sees how
        done = {"conditions": None, "allocatedResources": None, "allocatedResourceStatuses": None}
        self._write_status(metadata, {"capacity": asked, **done})

    def _write_status(self, metadata: dict[str, Any], status: dict[str, Any]) -> None:
        with suppress(KubectlError):  # it has changed; the next look sees how
            self._cluster.kubectl(
                "patch", "pvc", metadata["name"], "-n", metadata["namespace"], "--subresource=status",
                "--type=merge", "-p", json.dumps({"status": status}),
            )  # fmt: skip


def _deletes(volume: dict[str, Any]) -> bool:
    annotations = volume["metadata"].get("annotations") or {}
    return (
        annotations.get("pv.kubernetes.io/provisioned-by") == PROVISIONER
        and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    )
