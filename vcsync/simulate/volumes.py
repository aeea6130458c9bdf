"""Storage of a hollow cluster: a StorageClass for tenants, and a provisioner whose volumes are objects only.

The cluster's own controllers bind the volumes, as they do for every external provisioner.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import structlog
from msgspec import Struct

from vcsync.api import names
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, KubeError, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from vcsync.objects.envelope import Envelope, decode, untyped

PROVISIONER = "hollow.tenancy.x-k8s.io"
STORAGE_CLASS = "standard"
"""Name of the StorageClass that a hollow cluster publishes."""
AGAIN_SECONDS = 5.0
"""Seconds until a request that failed is made again."""
_ASKED_BY = "volume.kubernetes.io/storage-provisioner"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"

_log = structlog.get_logger(__name__)

Json = dict[str, Any]


class _ClaimSpec(Struct, rename="camel"):
    volume_name: str = ""


class _ClaimSource(Struct, rename="camel"):
    claim_name: str = ""


class _Volume(Struct, rename="camel"):
    persistent_volume_claim: _ClaimSource | None = None


class _PodSpec(Struct):
    volumes: tuple[_Volume, ...] | None = None


class _VolumeStatus(Struct):
    phase: str = ""


def storage_class() -> Json:
    """Return the StorageClass, which is the default and published to tenants."""
    return {
        "apiVersion": STORAGE_CLASSES.api_version,
        "kind": STORAGE_CLASSES.kind,
        "metadata": {
            "name": STORAGE_CLASS,
            "labels": {names.SUPER_PUBLIC: names.TRUE},
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


def volume(claim: Envelope) -> Json | None:
    """Return the volume to make for a claim; None if it has one, or another provisioner is responsible."""
    asked = claim.annotations.get(_ASKED_BY) == PROVISIONER
    if claim.deleting or not asked or _has_volume(claim):
        return None
    spec = untyped(claim.spec)
    name = names.volume_name(claim.uid)
    return {
        "apiVersion": PERSISTENT_VOLUMES.api_version,
        "kind": PERSISTENT_VOLUMES.kind,
        "metadata": {"name": name, "annotations": {_PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": dict(spec["resources"]["requests"]),
            "accessModes": spec["accessModes"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "storageClassName": spec.get("storageClassName", ""),
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": PROVISIONER, "volumeHandle": name},
            "claimRef": {
                "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version,
                "kind": PERSISTENT_VOLUME_CLAIMS.kind,
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.uid,
            },
        },
    }


def _has_volume(claim: Envelope) -> bool:
    return bool(decode(claim.spec, _ClaimSpec).volume_name)


def is_over(found: Envelope) -> bool:
    """Return whether a volume was made here and its claim is gone, so that it is deleted."""
    if found.annotations.get(_PROVISIONED_BY) != PROVISIONER or found.deleting or not found.status:
        return False
    return decode(found.status, _VolumeStatus).phase == "Released"


class Storage:
    """Makes and deletes the volumes of one hollow cluster.

    Args:
        client: client of that cluster, as its administrator; the caller closes it.
        settled: called with the namespace of a claim that is bound now, or whose node its provisioner has taken back.
    """

    def __init__(self, client: Client, settled: Callable[[str], None]) -> None:
        self._client = client
        self._settled = settled
        self._work: dict[tuple[str, str], Envelope] = {}
        self._wake = asyncio.Event()
        self._claims = Reflector(client, PERSISTENT_VOLUME_CLAIMS, sink=self._claim_changed)
        self._volumes = Reflector(client, PERSISTENT_VOLUMES, sink=self._volume_changed)

    async def run(self) -> None:
        """Simulate storage until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._claims.run())
            tasks.create_task(self._volumes.run())
            await self._publish()
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._settle()

    async def select_node(self, pod: Envelope, node: str) -> None:
        """Name the node of a Pod on its claims without a volume, as kube-scheduler does: some wait for it.

        Raises:
            KubeError: the API refused.
        """
        for claim in list(self._unbound(pod)):
            if _SELECTED_NODE in claim.annotations:
                continue
            patch = {"metadata": {"uid": claim.uid, "annotations": {_SELECTED_NODE: node}}}
            self._claims.observe(
                await self._client.patch(PERSISTENT_VOLUME_CLAIMS, claim.name, patch, claim.namespace)
            )

    def lacks_volume(self, pod: Envelope) -> bool:
        """Return whether a claim of a Pod has no volume yet. kube-scheduler binds a Pod after its claims."""
        return any(True for _ in self._unbound(pod))

    def _unbound(self, pod: Envelope) -> Iterator[Envelope]:
        if b'"persistentVolumeClaim"' not in pod.spec:
            return
        for each in decode(pod.spec, _PodSpec).volumes or ():
            source = each.persistent_volume_claim
            claim = self._claims.cache.get(pod.namespace, source.claim_name) if source is not None else None
            if claim is not None and not _has_volume(claim):
                yield claim

    async def _publish(self) -> None:
        while True:
            try:
                with suppress(AlreadyExists):
                    await self._client.create(STORAGE_CLASSES, storage_class())
            except KubeError as error:
                _log.debug("the API refused the storage class", error=str(error))
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return

    async def _settle(self) -> None:
        """Make and delete volumes until nothing is to be done. A request that failed is made again later."""
        while self._work:
            key, found = self._work.popitem()
            try:
                if key[0] == PERSISTENT_VOLUMES.plural:
                    with suppress(NotFound):
                        await self._client.delete(PERSISTENT_VOLUMES, found.name, uid=found.uid)
                elif (body := volume(found)) is not None:
                    with suppress(AlreadyExists):
                        await self._client.create(PERSISTENT_VOLUMES, body)
            except KubeError as error:
                _log.debug("the API refused", volume=found.name, error=str(error))
                self._work.setdefault(key, found)
                self._wake.set()
                await asyncio.sleep(AGAIN_SECONDS)
                return

    def _claim_changed(self, change: Change) -> None:
        claim = change.new
        if claim is None:
            return
        if volume(claim) is not None:
            self._add(PERSISTENT_VOLUME_CLAIMS.plural, claim)
        if _has_volume(claim) or (change.old is not None and _SELECTED_NODE not in claim.annotations):
            self._settled(claim.namespace)

    def _volume_changed(self, change: Change) -> None:
        if change.new is not None and is_over(change.new):
            self._add(PERSISTENT_VOLUMES.plural, change.new)

    def _add(self, plural: str, found: Envelope) -> None:
        self._work[plural, found.uid] = found
        self._wake.set()
