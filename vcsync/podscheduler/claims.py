"""A tenant's PersistentVolumeClaims as the Pod scheduler sees them, and its decisions that are not written yet. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.api import names
from vcsync.api.names import SUPER_CLUSTER
from vcsync.api.provisioning import (
    NOTHING,
    RETURNING,
    Provisioning,
    all_provisioning,
    provisioning_annotation,
)
from vcsync.objects.envelope import Envelope, decode
from vcsync.scheduling.claims import ClaimNeed
from vcsync.scheduling.snapshot import Health, SuperView

LOST = "Lost"


class _Spec(Struct, gc=False, rename="camel"):
    storage_class_name: str | None = None
    volume_name: str = ""


class _Status(Struct, gc=False):
    phase: str = ""


class _Record(Struct, frozen=True, gc=False, array_like=True):
    storage_class: str
    volume: str
    phase: str
    said: dict[str, Provisioning] = {}
    """What super clusters say about the claim, by id."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Record).decode


def slim_claim(claim: Envelope) -> Envelope:
    """Return a claim's envelope for the cache. It has only vcsync's label, and class, volume and phase as `spec`."""
    spec, status = decode(claim.spec, _Spec), decode(claim.status, _Status) if claim.status else _Status()
    label = claim.labels.get(SUPER_CLUSTER)
    return Envelope(
        claim.name,
        claim.namespace,
        claim.uid,
        claim.resource_version,
        labels={} if label is None else {SUPER_CLUSTER: label},
        deletion_timestamp=claim.deletion_timestamp,
        spec=_encode(
            _Record(
                spec.storage_class_name or "",
                spec.volume_name,
                status.phase,
                all_provisioning(claim.annotations),
            )
        ),
    )


def left_behind(claim: Envelope, super_id: str) -> str:
    """Return the super cluster that a claim leaves for another one and that said that it may have a copy; empty if none."""
    left = claim.labels.get(SUPER_CLUSTER, "")
    said = _decode(claim.spec).said.get(left, NOTHING)
    return left if left != super_id and said.may_have_copy else ""


def claim_assignment(claim: Envelope, super_id: str) -> dict[str, Any]:
    """Return the merge patch that assigns a claim to a super cluster. It fails if the claim has changed.

    A super cluster that the claim leaves cannot say itself that it has no copy any more: it may be gone.
    """
    metadata: dict[str, Any] = {
        "uid": claim.uid,
        "resourceVersion": claim.resource_version,
        "labels": {SUPER_CLUSTER: super_id},
    }
    if left := left_behind(claim, super_id):
        metadata["annotations"] = provisioning_annotation(left, NOTHING)
    return {"metadata": metadata}


class Claims:
    """The claims of one tenant.

    Args:
        find: returns a claim in the form of `slim_claim`, by namespace and name.
        unread: returns why the claims are not known; empty if they are.
        holds: returns whether a super cluster may have objects of a namespace.
    """

    def __init__(
        self,
        find: Callable[[str, str], Envelope | None] = lambda _namespace, _name: None,
        unread: Callable[[], str] = lambda: "",
        holds: Callable[[str, str], bool] = lambda _namespace, _super_id: True,
    ) -> None:
        self._holds = holds
        self._find = find
        self._unread = unread
        # UID of a claim -> the super cluster of a decision that is being written, and how many Pods it is written for.
        self._assumed: dict[str, tuple[str, int]] = {}

    def needs(
        self, namespace: str, named: Iterable[str], views: Mapping[str, SuperView]
    ) -> tuple[ClaimNeed, ...]:
        """Return what the claims of a Pod demand.

        Args:
            namespace: the Pod's namespace.
            named: names of its claims.
            views: the registered super clusters.
        """
        if unread := self._unread():
            return tuple(ClaimNeed(name, problem=unread) for name in named)
        return tuple(self._need(name, self._find(namespace, name), views) for name in named)

    def unassigned(self, namespace: str, named: Iterable[str], super_id: str) -> list[Envelope]:
        """Return the claims that do not name a super cluster in their label yet."""
        found = (self._find(namespace, name) for name in named)
        return [each for each in found if each is not None and each.labels.get(SUPER_CLUSTER) != super_id]

    def assume(self, claims: Iterable[Envelope], super_id: str) -> None:
        """Count claims on the super cluster of a new decision, before it is written."""
        for claim in claims:
            _, count = self._assumed.get(claim.uid, ("", 0))
            self._assumed[claim.uid] = (super_id, count + 1)

    def settle(self, claims: Iterable[Envelope]) -> None:
        """Count claims by their objects again, after a decision was written or failed."""
        for claim in claims:
            super_id, count = self._assumed.get(claim.uid, ("", 0))
            if count > 1:
                self._assumed[claim.uid] = (super_id, count - 1)
            else:
                self._assumed.pop(claim.uid, None)

    def _need(self, name: str, claim: Envelope | None, views: Mapping[str, SuperView]) -> ClaimNeed:
        if claim is None:
            return ClaimNeed(name, problem=f'persistentvolumeclaim "{name}" not found')
        if claim.deleting:
            return ClaimNeed(name, problem=f'persistentvolumeclaim "{name}" is being deleted')
        record = _decode(claim.spec)
        if record.phase == LOST:
            return ClaimNeed(name, problem=f"claim {name} has lost its volume")
        if record.volume and record.volume != names.volume_name(claim.uid):
            return ClaimNeed(
                name,
                problem=f"claim {name} is bound to volume {record.volume}, which is not in the clusters that Pods run on; "
                "use a claim with a published StorageClass",
            )
        home = self._home(claim, record, views)
        if not home and not record.storage_class:
            return ClaimNeed(name, problem=f"claim {name} has no StorageClass; use a published one")
        leaving = not record.volume and record.said.get(home, NOTHING).state == RETURNING
        problem = (
            f"claim {name} is leaving super cluster {home}, which cannot provision it" if leaving else ""
        )
        returns = {super_id: said.returns for super_id, said in record.said.items() if said.returns}
        return ClaimNeed(name, home, record.storage_class, problem, returns)

    def _home(self, claim: Envelope, record: _Record, views: Mapping[str, SuperView]) -> str:
        """Return the super cluster that has a claim or is to have it; empty if none does yet."""
        assumed, _ = self._assumed.get(claim.uid, ("", 0))
        labelled = claim.labels.get(SUPER_CLUSTER, "")
        stays = record.volume or (labelled and self._stays(claim, labelled, record, views))
        return assumed or (labelled if stays else "")

    def _stays(self, claim: Envelope, home: str, record: _Record, views: Mapping[str, SuperView]) -> bool:
        """Return whether a claim without volume stays with the super cluster that its label names.

        It leaves one that has removed everything of the namespace, by the ledger. It also leaves one that certainly has no
        copy and cannot make one: it is not registered, is lost, or does not publish the class.
        """
        if not self._holds(claim.namespace, home):
            return False
        if record.said.get(home, NOTHING).may_have_copy:
            return True
        view = views.get(home)
        return view is not None and view.health is not Health.LOST and view.publishes(record.storage_class)
