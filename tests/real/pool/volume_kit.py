"""Helpers for the tests of volumes: published classes with their provisioners, claims, Pods that use them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from hack.testbed.provisioner import Provisioner
from tests.real.pool.pool_kit import Json, Pool, Space, pod, read
from tests.real.waiting import eventually
from vcsync.api import names

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "persistentvolumeclaims"


@contextmanager
def published(pool: Pool, classes: Mapping[str, Sequence[Json]]) -> Iterator[dict[str, Provisioner]]:
    """Create StorageClasses in super clusters, each with a provisioner, and return those; removed afterwards."""
    with ExitStack() as stack:
        made = {}
        for super_id, found in classes.items():
            cluster = pool.supers[super_id]
            for each in found:
                cluster.kubectl("apply", "-f", "-", input=json.dumps(each))
                stack.callback(
                    cluster.kubectl, "delete", "storageclass", each["metadata"]["name"], "--ignore-not-found"
                )
            made[super_id] = stack.enter_context(Provisioner(cluster))
        yield made


def shown(space: Space, name: str) -> str | None:
    """Return the super clusters that a class in the tenant names; None if it does not exist."""
    found = read(space.tenant, f"{CLASSES}/{name}")
    return found and found["metadata"]["annotations"][names.PUBLISHED_BY]


def claim(name: str, storage_class_name: str = "fast", **spec: Any) -> Json:
    """A claim."""
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "64Mi"}},
        "storageClassName": storage_class_name,
        **spec,
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": wanted,
    }


def user(name: str, *claims: str, **fields: Any) -> Json:
    """Return a Pod that uses claims."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod(name, volumes=volumes, **fields)


def bound(space: Space, name: str) -> Json:
    """Wait until a claim is bound in the tenant, and return it."""

    def check() -> Json:
        found = space.get(CLAIMS, name)
        assert found is not None
        assert (found.get("status") or {}).get("phase") == "Bound", found
        return found

    return eventually(check)


def reason(space: Space, name: str, *texts: str) -> str:
    """Wait for an Event of the Pod scheduler that contains the texts, and return its message."""

    def found() -> str:
        messages = [each["message"] for each in space.events(name, "FailedScheduling")]
        return next((each for each in messages if all(text in each for text in texts)), "")

    return eventually(found)


def volume_of(space: Space, found: Json) -> Json | None:
    """Return the tenant's volume of a claim."""
    return read(space.tenant, f"/api/v1/persistentvolumes/{names.volume_name(found['metadata']['uid'])}")


def holders(space: Space, name: str) -> list[str]:
    """Return the super clusters that have a copy of a claim."""
    return [each for each in ("r1", "r2") if space.there(each, CLAIMS, name) is not None]
