"""A scheduler that has not read a tenant's claims yet leaves the Pods alone that an earlier one has assigned."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tenant_kit import NS, SIZE, Tenant

from vcsync.api.names import REFUSAL_PREFIX, SUPER_CLUSTER
from vcsync.api.refusals import QUOTA, REFUSED
from vcsync.api.specs import PublishedDeviceClass, PublishedStorageClass
from vcsync.objects.envelope import Envelope, parse
from vcsync.podscheduler.claims import Claims, slim_claim
from vcsync.podscheduler.device_claims import DeviceClaims, slim_device_claim
from vcsync.podscheduler.tenant import TenantPods
from vcsync.scheduling.snapshot import Health, SuperView

VOLUME: dict[str, Any] = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
DEVICE: dict[str, Any] = {"resourceClaims": [{"name": "d", "resourceClaimName": "data"}]}
UNREAD = "claims cannot be read yet"
KINDS = pytest.mark.parametrize("uses", [VOLUME, DEVICE], ids=["volume", "device"])


class Unread(Tenant):
    """The tenant of a new session, which has read the Pods, but not the claim `data` on r1."""

    def __init__(self) -> None:
        super().__init__()
        self.unread = UNREAD
        self.claims: dict[str, Envelope] = {}
        self.views = {
            super_id: SuperView(
                super_id,
                Health.READY,
                {},
                storage_classes=(PublishedStorageClass(name="fast"),),
                device_classes=(PublishedDeviceClass(name="gpu"),),
            )
            for super_id in ("r1", "r2")
        }
        self.pods = TenantPods(
            self,
            lambda: self.views,
            self.add,
            self.add_after,
            lambda: self.now,
            claims=Claims(self.of("volume"), lambda: self.unread),
            devices=DeviceClaims(self.of("device"), lambda: self.unread),
        )
        self.pods.grant(NS, SIZE, {"r1": 1, "r2": 1})

    def of(self, kind: str) -> Callable[[str, str], Envelope | None]:
        return lambda _namespace, _name: self.claims.get(kind)

    def have_read(self, home: str = "r1") -> None:
        """Let the claims be read: `data` is on a super cluster."""
        metadata = {"name": "data", "namespace": NS, "uid": "u", "resourceVersion": "1"}
        metadata |= {"labels": {SUPER_CLUSTER: home}}
        volume = {"metadata": metadata, "spec": {"storageClassName": "fast"}, "status": {}}
        device = {
            "metadata": metadata,
            "spec": {"devices": {"requests": [{"exactly": {"deviceClassName": "gpu"}}]}},
        }
        self.claims = {
            "volume": slim_claim(parse(json.dumps(volume).encode())),
            "device": slim_device_claim(parse(json.dumps(device).encode())),
        }
        self.unread = ""
        self.pods.pool_changed()

    def assigned(self, uses: dict[str, Any], cpu: str = "50m", **annotations: str) -> None:
        """Create a Pod that an earlier scheduler has assigned to r1, where a copy may run."""
        metadata = {
            "name": "p",
            "namespace": NS,
            "uid": "uid-p",
            "labels": {SUPER_CLUSTER: "r1"},
            "annotations": {SUPER_CLUSTER: "r1", **annotations},
        }
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        self.store("p", {"metadata": metadata, "spec": {"containers": [container], **uses}})


@KINDS
async def test_a_pod_that_is_assigned_is_left_alone_and_nothing_is_told(uses):
    tenant = Unread()
    tenant.assigned(uses)
    tenant.pods.begin()
    await tenant.settle()
    assert (tenant.patches, tenant.events) == ([], [])
    tenant.have_read()
    await tenant.settle()
    assert (tenant.patches, tenant.events, tenant.home("p")) == ([], [], "r1")


@KINDS
async def test_a_pod_that_exceeds_its_share_is_left_alone(uses):
    tenant = Unread()
    tenant.assigned(uses, "150m")
    tenant.pods.begin()
    await tenant.settle()
    assert (tenant.patches, tenant.events) == ([], [])


@KINDS
async def test_a_pod_whose_slices_have_left_is_left_alone_with_the_reason(uses):
    tenant = Unread()
    tenant.assigned(uses)
    tenant.pods.grant(NS, SIZE, {})
    tenant.pods.begin()
    await tenant.settle()
    assert tenant.patches == []
    assert tenant.events == [("p", f"the Pod keeps super cluster r1 for now: {UNREAD}")]
    tenant.pods.pool_changed()
    await tenant.settle()
    assert len(tenant.events) == 1


@KINDS
async def test_a_pod_that_is_refused_is_not_withdrawn_until_its_claims_are_known(uses):
    tenant = Unread()
    said = json.dumps({"state": REFUSED, "reason": QUOTA})
    tenant.assigned(uses, **{REFUSAL_PREFIX + "r1": said})
    tenant.pods.begin()
    await tenant.settle()
    assert tenant.patches == []
    tenant.have_read(home="")
    await tenant.settle()
    [(name, patch)] = tenant.patches
    assert (name, list(patch["metadata"]["annotations"])) == ("p", [REFUSAL_PREFIX + "r1"])


@KINDS
async def test_a_pod_without_super_cluster_waits_for_its_claims(uses):
    tenant = Unread()
    tenant.create("p", **uses)
    tenant.pods.begin()
    await tenant.settle()
    assert tenant.home("p") == ""
    assert UNREAD in tenant.events[0][1]
    tenant.have_read("r2")
    await tenant.settle()
    assert tenant.home("p") == "r2"


@KINDS
async def test_claims_that_were_read_and_lack_the_one_of_a_pod_are_a_refusal(uses):
    tenant = Unread()
    tenant.assigned(uses)
    tenant.unread = ""
    tenant.pods.begin()
    await tenant.settle()
    [(name, patch)] = tenant.patches
    assert (name, list(patch["metadata"]["annotations"])) == ("p", [REFUSAL_PREFIX + "r1"])
