"""Stands in for an operator's external snapshotter: its CustomResourceDefinitions, and its snapshots in a super cluster."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pool_kit import items, read

from hack.testbed import Cluster, KubectlError
from vcsync.api import names

GROUP = "snapshot.storage.k8s.io"
BASE = f"/apis/{GROUP}/v1"
SNAPSHOTS = "volumesnapshots"
DRIVER = "disks.example.com"
SECRET_HANDLE = "san-7.of-the-operator"
TAKEN = "2026-05-01T12:00:00Z"
_LOOK_SECONDS = 0.2
_KINDS = ("VolumeSnapshot", "VolumeSnapshotClass", "VolumeSnapshotContent")

_TEXT = {"type": "string"}
_TIME = {"type": "string", "format": "date-time"}
_ERROR = {"type": "object", "properties": {"message": _TEXT, "time": _TIME}}
_ONE_SOURCE = "has(self.persistentVolumeClaimName) != has(self.volumeSnapshotContentName)"
_SCHEMAS: dict[str, dict[str, Any]] = {
    "VolumeSnapshot": {
        "spec": {
            "type": "object",
            "required": ["source"],
            "properties": {
                "source": {
                    "type": "object",
                    "properties": {"persistentVolumeClaimName": _TEXT, "volumeSnapshotContentName": _TEXT},
                    "x-kubernetes-validations": [
                        {"rule": _ONE_SOURCE, "message": "exactly one source is required"}
                    ],
                },
                "volumeSnapshotClassName": _TEXT,
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "boundVolumeSnapshotContentName": _TEXT,
                "creationTime": _TIME,
                "error": _ERROR,
                "readyToUse": {"type": "boolean"},
                "restoreSize": {
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                    "x-kubernetes-int-or-string": True,
                },
            },
        },
    },
    "VolumeSnapshotClass": {
        "driver": _TEXT,
        "deletionPolicy": {"type": "string", "enum": ["Delete", "Retain"]},
        "parameters": {"type": "object", "additionalProperties": _TEXT},
    },
    "VolumeSnapshotContent": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def definition(kind: str) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind."""
    plural = kind.lower() + ("es" if kind.endswith("s") else "s")
    properties = _SCHEMAS[kind]
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}} if "status" in properties else {},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "annotations": {
                "api-approved.kubernetes.io": "https://github.com/kubernetes-csi/external-snapshotter/pull/814"
            },
        },
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced" if kind == "VolumeSnapshot" else "Cluster",
            "versions": [version],
        },
    }


@contextmanager
def served(*clusters: Cluster) -> Iterator[None]:
    """Have clusters serve the snapshot kinds until the block ends."""
    try:
        for cluster in clusters:
            for kind in _KINDS:
                cluster.kubectl("apply", "-f", "-", input=json.dumps(definition(kind)))
        yield
    finally:
        for cluster in clusters:
            for kind in _KINDS:
                cluster.kubectl("delete", "crd", definition(kind)["metadata"]["name"], "--ignore-not-found")


def snapshot_class(name: str, *, public: bool = True) -> dict[str, Any]:
    """Return a VolumeSnapshotClass of the operator."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "VolumeSnapshotClass",
        "metadata": {"name": name, "labels": {names.SUPER_PUBLIC: names.TRUE} if public else {}},
        "driver": DRIVER,
        "deletionPolicy": "Delete",
        "parameters": {"csi.storage.k8s.io/snapshotter-secret-name": "of-the-operator"},
    }


def snapshot(name: str, claim: str = "data", cls: str = "nightly", **source: str) -> dict[str, Any]:
    """Return a VolumeSnapshot of a claim, or of another source."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": name},
        "spec": {
            "source": source or {"persistentVolumeClaimName": claim},
            "volumeSnapshotClassName": cls,
        },
    }


class Snapshotter:
    """Takes snapshots in one cluster in a thread, as an external snapshotter does.

    Args:
        cluster: the super cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.broken = False
        """If true, snapshots get an error and no content."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Snapshotter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            with suppress(
                AssertionError
            ):  # the kinds may have just been installed; the next look sees how it went
                for found in items(self._cluster, f"{BASE}/volumesnapshots"):
                    if "boundVolumeSnapshotContentName" not in (found.get("status") or {}):
                        self._take(found)

    def _take(self, found: dict[str, Any]) -> None:
        metadata, spec = found["metadata"], found["spec"]
        named = spec["source"].get("persistentVolumeClaimName", "")
        claim = read(
            self._cluster, f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{named}"
        )
        cls = read(self._cluster, f"{BASE}/volumesnapshotclasses/{spec['volumeSnapshotClassName']}")
        if claim is None or cls is None or "volumeName" not in claim["spec"]:
            return
        if self.broken:
            error = {"message": f"{SECRET_HANDLE} has no space left", "time": TAKEN}
            self._write_status(metadata, {"readyToUse": False, "error": error})
            return
        name = f"snapcontent-{metadata['uid']}"
        content = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "VolumeSnapshotContent",
            "metadata": {"name": name},
            "spec": {
                "driver": DRIVER,
                "deletionPolicy": cls["deletionPolicy"],
                "source": {"volumeHandle": f"{SECRET_HANDLE}/{claim['spec']['volumeName']}"},
                "volumeSnapshotRef": {"namespace": metadata["namespace"], "name": metadata["name"]},
            },
        }
        self._cluster.call("POST", f"{BASE}/volumesnapshotcontents", content)
        taken = {
            "boundVolumeSnapshotContentName": name,
            "creationTime": TAKEN,
            "readyToUse": True,
            "restoreSize": claim["status"]["capacity"]["storage"],
            "error": None,
        }
        self._write_status(metadata, taken)

    def _write_status(self, metadata: dict[str, Any], status: dict[str, Any]) -> None:
        with suppress(KubectlError):  # it has changed; the next look sees how
            self._cluster.kubectl(
                "patch", "volumesnapshot", metadata["name"], "-n", metadata["namespace"], "--subresource=status",
                "--type=merge", "-p", json.dumps({"status": status}),
            )  # fmt: skip
