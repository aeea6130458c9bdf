"""Helpers for the tests of devices: an operator's driver with its DeviceClasses, claims, Pods that use them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from pool_kit import Json, Pool, Space, container, items, pod, read

from hack.testbed.classes import device_class, resource_slice
from vcsync.api import names

GROUP = "resource.k8s.io/v1"
CLASSES = f"/apis/{GROUP}/deviceclasses"
CLAIMS = "resourceclaims"


@contextmanager
def with_devices(pool: Pool, classes: Mapping[str, tuple[str, ...]], devices: int = 4) -> Iterator[None]:
    """Publish DeviceClasses in super clusters, whose nodes have some devices each, until the block ends."""
    with ExitStack() as stack:
        for super_id, wanted in classes.items():
            cluster = pool.supers[super_id]
            nodes = [each["metadata"]["name"] for each in items(cluster, "/api/v1/nodes")]
            for body in (*map(device_class, wanted), *(resource_slice(node, devices) for node in nodes)):
                cluster.kubectl("apply", "-f", "-", input=json.dumps(body))
                stack.callback(
                    cluster.kubectl, "delete", body["kind"], body["metadata"]["name"], "--ignore-not-found"
                )
        yield


def shown(space: Space, name: str) -> str | None:
    """Return the super clusters that a class in the tenant names; None if it does not exist."""
    found = read(space.tenant, f"{CLASSES}/{name}")
    return found and found["metadata"]["annotations"][names.PUBLISHED_BY]


def claim_spec(device_class_name: str = "gpu", **request: Any) -> Json:
    """Return the spec of a claim to devices of one class."""
    exactly = {"deviceClassName": device_class_name, **request}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def claim(name: str, device_class_name: str = "gpu", **request: Any) -> Json:
    """Return a claim."""
    return {
        "apiVersion": GROUP,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": claim_spec(device_class_name, **request),
    }


def template(name: str, device_class_name: str = "gpu") -> Json:
    """Return a template of claims."""
    return {
        "apiVersion": GROUP,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": claim_spec(device_class_name)},
    }


def user(name: str, *claims: str, of_template: str = "", **fields: Any) -> Json:
    """Return a Pod that uses claims, or one that is made from a template."""
    used = [{"name": each, "resourceClaimName": each} for each in claims]
    if of_template:
        used.append({"name": "made", "resourceClaimTemplateName": of_template})
    main = container()
    main["resources"] = {**main["resources"], "claims": [{"name": each["name"]} for each in used]}
    return pod(name, **{"containers": [main], "resourceClaims": used, **fields})


def there(space: Space, super_id: str, name: str) -> Json | None:
    """Return the copy of a claim in a super cluster."""
    return space.there(super_id, CLAIMS, name, GROUP)
