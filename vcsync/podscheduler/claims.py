"""A tenant's PersistentVolumeClaims as the Pod scheduler sees them, and its decisions that are not written yet. Pure."""

from collections.abc import Callable, Container, Iterable, Mapping
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
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, VOLUME_SNAPSHOTS, Resource
from vcsync.objects.envelope import Envelope, decode
from vcsync.podscheduler.assigned_claims import AssignedClaims
from vcsync.scheduling.claims import ClaimNeed
from vcsync.scheduling.snapshot import Health, SuperView

LOST = "Lost"


class _Source(Struct, gc=False, rename="camel"):
    api_group: str | None = None
    kind: str = ""
    name: str = ""
    namespace: str | None = None


class _Spec(Struct, gc=False, rename="camel"):
    storage_class_name: str | None = None
    volume_name: str = ""
    data_source: _Source | None = None
    data_source_ref: _Source | None = None


class _Status(Struct, gc=False):
    phase: str = ""


class _Record(Struct, frozen=True, gc=False, array_like=True):
    storage_class: str
    volume: str
    phase: str
    said: dict[str, Provisioning] = {}
    """Answers of super clusters about the claim, by id."""
    source: str = ""
    """Name of the claim that it is a clone of."""
    snapshot: str = ""
    """Name of the VolumeSnapshot that it is restored from."""


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
                _source_name(spec, PERSISTENT_VOLUME_CLAIMS),
                _source_name(spec, VOLUME_SNAPSHOTS),
            )
        ),
    )


def slim_snapshot(snapshot: Envelope) -> Envelope:
    """Return a VolumeSnapshot's envelope for the cache: only what tells where it is."""
    label = snapshot.labels.get(SUPER_CLUSTER)
    return Envelope(
        snapshot.name,
        snapshot.namespace,
        snapshot.uid,
        snapshot.resource_version,
        labels={} if label is None else {SUPER_CLUSTER: label},
        deletion_timestamp=snapshot.deletion_timestamp,
    )


def _source_name(spec: _Spec, resource: Resource) -> str:
    """Return the source of a claim if it is of this kind; empty for every other source."""
    source = spec.data_source or spec.data_source_ref
    if (
        source is None
        or source.namespace
        or ((source.api_group or "", source.kind) != (resource.group, resource.kind))
    ):
        return ""
    return source.name


def clone_source(claim: Envelope) -> str:
    """Return the claim that a claim is a clone of, in the form of `slim_claim`; empty if it is not one."""
    return _decode(claim.spec).source


def snapshot_source(claim: Envelope) -> str:
    """Return the VolumeSnapshot that a claim is restored from, in the form of `slim_claim`; empty if there is none."""
    return _decode(claim.spec).snapshot


class Clones:
    """The claims of one tenant that are made from others' data, by their source.

    Args:
        source: returns the name of a claim's source; empty if it has none.
    """

    def __init__(self, source: Callable[[Envelope], str] = clone_source) -> None:
        self._source = source
        self._of: dict[tuple[str, str], set[str]] = {}

    def observe(self, old: Envelope | None, new: Envelope | None) -> None:
        """Take a change of a claim, in the form of `slim_claim`."""
        before = self._source(old) if old is not None else ""
        after = self._source(new) if new is not None else ""
        if before == after:
            return
        if old is not None and before:
            clones = self._of[old.namespace, before]
            clones.discard(old.name)
            if not clones:
                del self._of[old.namespace, before]
        if new is not None and after:
            self._of.setdefault((new.namespace, after), set()).add(new.name)

    def of(self, namespace: str, name: str) -> tuple[str, ...]:
        """Return the names of the claims with this source."""
        return tuple(self._of.get((namespace, name), ()))


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


class Claims(AssignedClaims):
    """The PersistentVolumeClaims of one tenant, in the form of `slim_claim`.

    Args:
        find: returns a claim, by namespace and name.
        unread: returns why the claims are not known; empty if they are.
        holds: returns whether a super cluster may have objects of a namespace.
        find_snapshot: returns a VolumeSnapshot, by namespace and name.
        snapshots_unread: returns why the VolumeSnapshots are not known; empty if they are.
    """

    def __init__(
        self,
        find: Callable[[str, str], Envelope | None] = lambda _namespace, _name: None,
        unread: Callable[[], str] = lambda: "",
        holds: Callable[[str, str], bool] = lambda _namespace, _super_id: True,
        find_snapshot: Callable[[str, str], Envelope | None] = lambda _namespace, _name: None,
        snapshots_unread: Callable[[], str] = lambda: "",
    ) -> None:
        super().__init__(find, unread, holds)
        self._find_snapshot = find_snapshot
        self._snapshots_unread = snapshots_unread

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
            return tuple(ClaimNeed(name, problem=unread, unread=True) for name in named)
        wanted = tuple(named)
        return tuple(self._need(name, self._find(namespace, name), views, wanted) for name in wanted)

    def _need(
        self, name: str, claim: Envelope | None, views: Mapping[str, SuperView], together: Container[str]
    ) -> ClaimNeed:
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
        problem = source = ""
        if not record.volume and record.said.get(home, NOTHING).state == RETURNING:
            problem = f"claim {name} is leaving super cluster {home}, which cannot provision it"
        elif not home and record.source and record.source not in together:
            source = self._source_home(claim.namespace, record.source, views)
            if not source:
                problem = (
                    f"claim {name} is a clone of claim {record.source}, which is on no super cluster yet"
                )
        elif not home and record.snapshot:
            source = self._snapshot_home(claim.namespace, record.snapshot)
            if not source:
                why = self._snapshots_unread() or "it is on no super cluster yet"
                problem = f"claim {name} is restored from VolumeSnapshot {record.snapshot}: {why}"
        returns = {super_id: said.returns for super_id, said in record.said.items() if said.returns}
        return ClaimNeed(
            name, home, record.storage_class, problem, returns, source=source, restored=bool(record.snapshot)
        )

    def _source_home(self, namespace: str, name: str, views: Mapping[str, SuperView]) -> str:
        """Return the super cluster that has the source of a clone; empty if none does, or the source is being deleted."""
        found = self._find(namespace, name)
        return "" if found is None or found.deleting else self._home(found, _decode(found.spec), views)

    def _snapshot_home(self, namespace: str, name: str) -> str:
        """Return the super cluster that has a snapshot; empty if none does, or it is being deleted.

        A tenant may write the label. It decides where its own claim waits; the syncer there looks for the snapshot itself.
        """
        found = self._find_snapshot(namespace, name)
        return "" if found is None or found.deleting else found.labels.get(SUPER_CLUSTER, "")

    def _home(self, claim: Envelope, record: _Record, views: Mapping[str, SuperView]) -> str:
        """Return the super cluster that has a claim or is to have it; empty if none does yet."""
        labelled = claim.labels.get(SUPER_CLUSTER, "")
        stays = record.volume or (labelled and self._stays(claim, labelled, record, views))
        return self._assumed_home(claim) or (labelled if stays else "")

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
