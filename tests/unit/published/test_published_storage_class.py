"""StorageClasses of a super cluster: tenants get to know name, reclaim policy and expansion, and nothing else."""

import json
from typing import Any

import pytest

from vcsync.api.specs import PublishedStorageClass
from vcsync.objects.envelope import Envelope, parse
from vcsync.published.storage_class import describe


def storage_class(name: str = "fast", **fields: Any) -> Envelope:
    metadata = {"name": name, **fields.pop("metadata", {})}
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata, **fields}
    return parse(json.dumps(body).encode())


@pytest.mark.parametrize(
    ("fields", "described"),
    [
        ({"provisioner": "csi.example.com"}, {}),
        ({"reclaimPolicy": "Retain"}, {"reclaim_policy": "Retain"}),
        ({"reclaimPolicy": "Delete", "allowVolumeExpansion": True}, {"allow_volume_expansion": True}),
        ({"reclaimPolicy": "Recycle"}, {"reclaim_policy": "Delete"}),
        ({"parameters": {"secret": "x"}, "mountOptions": ["nfsvers=4"]}, {}),
        (
            {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}},
            {"default": True},
        ),
    ],
)
def test_only_what_tenants_may_know_is_read(fields: dict[str, Any], described: dict[str, Any]) -> None:
    assert describe(storage_class(**fields)) == PublishedStorageClass(name="fast", **described)
