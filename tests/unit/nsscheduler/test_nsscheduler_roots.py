"""What a VirtualCluster leaves behind in the meta cluster goes with it, however it was deleted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from vcsync.api import names
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.kube.envelope import Envelope, parse
from vcsync.kube.errors import Forbidden, NotFound, Status, Unreachable
from vcsync.kube.resources import NAMESPACES, Resource
from vcsync.nsscheduler.roots import remove_root, remove_root_of_none

KEY = "vcsync-1a2b3c-acme"
OWNED = {
    names.VC_ROOT_NAMESPACE: names.TRUE,
    names.VC_NAME: "acme",
    names.VC_NAMESPACE: "vcsync",
    names.VC_UID: "u1",
}


class Meta:
    """A meta cluster with a root namespace, and perhaps a VirtualCluster."""

    name = "meta"

    def __init__(
        self, annotations: dict[str, str] | None = None, vc: str = "", *, deleting: bool = False
    ) -> None:
        metadata: dict[str, Any] = {"name": KEY, "uid": "root", "annotations": annotations or OWNED}
        if deleting:
            metadata["deletionTimestamp"] = "2026-05-01T12:00:00Z"
        self.objects = {(NAMESPACES, "", KEY): {"metadata": metadata}}
        if vc:
            self.objects[VIRTUAL_CLUSTERS, "vcsync", "acme"] = {"metadata": {"name": "acme", "uid": vc}}
        self.fails: Exception | None = None
        self.deleted: list[tuple[str, str | None]] = []

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Envelope:
        if self.fails is not None and resource == VIRTUAL_CLUSTERS:
            raise self.fails
        try:
            return parse(msgspec.json.encode(self.objects[resource, namespace, name]))
        except KeyError:
            raise NotFound(Status(404)) from None

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str | None = None
    ) -> None:
        if isinstance(self.fails, Forbidden):
            raise self.fails
        assert resource == NAMESPACES
        self.deleted.append((name, uid))


async def test_the_root_namespace_of_a_tenant_that_leaves_goes() -> None:
    meta = Meta()
    await remove_root(meta, KEY, "u1")  # type: ignore[arg-type]
    assert meta.deleted == [(KEY, "root")]


@pytest.mark.parametrize(
    "meta",
    [
        Meta({**OWNED, names.VC_UID: "u2"}),
        Meta({**OWNED, names.VC_ROOT_NAMESPACE: "false"}),
        Meta({names.VC_UID: "u1"}),
        Meta(deleting=True),
    ],
)
async def test_any_other_namespace_is_left_alone(meta: Meta) -> None:
    await remove_root(meta, KEY, "u1")  # type: ignore[arg-type]
    assert meta.deleted == []


async def test_there_may_be_none_any_more() -> None:
    meta = Meta()
    meta.objects.clear()
    await remove_root(meta, KEY, "u1")  # type: ignore[arg-type]
    await remove_root_of_none(meta, KEY)  # type: ignore[arg-type]
    assert meta.deleted == []


async def test_without_the_right_to_remove_it_the_tenant_can_leave_all_the_same() -> None:
    meta = Meta()
    meta.fails = Forbidden(Status(403, message="namespaces is forbidden"))
    await remove_root(meta, KEY, "u1")  # type: ignore[arg-type]
    assert meta.deleted == []


@pytest.mark.parametrize(("vc", "removed"), [("", True), ("u2", True), ("u1", False)])
async def test_a_root_namespace_whose_owner_went_without_a_finalizer_goes_when_that_is_certain(
    vc: str, removed: bool
) -> None:
    meta = Meta(vc=vc)
    await remove_root_of_none(meta, KEY)  # type: ignore[arg-type]
    assert bool(meta.deleted) is removed


async def test_nothing_goes_because_the_owner_could_not_be_read() -> None:
    meta = Meta()
    meta.fails = Unreachable("cut", endpoint="meta")
    with pytest.raises(Unreachable):
        await remove_root_of_none(meta, KEY)  # type: ignore[arg-type]
    assert meta.deleted == []
