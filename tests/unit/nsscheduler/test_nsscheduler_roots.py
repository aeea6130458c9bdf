"""Objects of a deleted VirtualCluster in the meta cluster are removed, however it was deleted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from vcsync.api import names
from vcsync.api.resources import TENANTS, VIRTUAL_CLUSTERS
from vcsync.kube.errors import Conflict, Forbidden, NotFound, Status, Unreachable
from vcsync.kube.resources import NAMESPACES, Resource
from vcsync.nsscheduler.roots import remove_orphaned_root, remove_record, remove_root
from vcsync.objects.envelope import Envelope, parse
from vcsync.tenancy.brake import Braked

KEY = "vcsync-1a2b3c-acme"
OWNED = {
    names.VC_ROOT_NAMESPACE: names.TRUE,
    names.VC_NAME: "acme",
    names.VC_NAMESPACE: "vcsync",
    names.VC_UID: "u1",
}


async def passes(_uid: str) -> None:
    """Let everything go."""


class Meta:
    """A meta cluster with a root namespace, and perhaps a VirtualCluster and a Tenant."""

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
        assert resource in {NAMESPACES, TENANTS}
        self.deleted.append((name, uid))


async def test_the_root_namespace_of_a_deleted_tenant_is_removed() -> None:
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
async def test_other_namespaces_are_kept(meta: Meta) -> None:
    await remove_root(meta, KEY, "u1")  # type: ignore[arg-type]
    assert meta.deleted == []


async def test_the_root_namespace_may_be_gone_already() -> None:
    meta = Meta()
    meta.objects.clear()
    await remove_root(meta, KEY, "u1")  # type: ignore[arg-type]
    await remove_orphaned_root(meta, KEY, passes)  # type: ignore[arg-type]
    assert meta.deleted == []


async def test_a_tenant_can_be_deleted_without_the_permission_to_remove_its_root() -> None:
    meta = Meta()
    meta.fails = Forbidden(Status(403, message="namespaces is forbidden"))
    await remove_root(meta, KEY, "u1")  # type: ignore[arg-type]
    assert meta.deleted == []


@pytest.mark.parametrize(("vc", "removed"), [("", True), ("u2", True), ("u1", False)])
async def test_an_orphaned_root_namespace_is_removed_when_its_owner_is_certainly_gone(
    vc: str, removed: bool
) -> None:
    meta = Meta(vc=vc)
    await remove_orphaned_root(meta, KEY, passes)  # type: ignore[arg-type]
    assert bool(meta.deleted) is removed


async def test_nothing_is_removed_while_the_owner_cannot_be_read() -> None:
    meta = Meta()
    meta.fails = Unreachable("cut", endpoint="meta")
    with pytest.raises(Unreachable):
        await remove_orphaned_root(meta, KEY, passes)  # type: ignore[arg-type]
    assert meta.deleted == []


async def test_nothing_is_removed_without_permission() -> None:
    asked = []

    async def refuses(uid: str) -> None:
        asked.append(uid)
        raise Braked("too many")

    meta = Meta()
    with pytest.raises(Braked):
        await remove_orphaned_root(meta, KEY, refuses)  # type: ignore[arg-type]
    assert (meta.deleted, asked) == ([], ["u1"])


def with_tenant(made_for: str, *, deleting: bool = False) -> Meta:
    meta = Meta()
    metadata: dict[str, Any] = {"name": "acme", "uid": "record"}
    if made_for:
        metadata["annotations"] = {names.VC_UID: made_for}
    if deleting:
        metadata["deletionTimestamp"] = "2026-05-01T12:00:00Z"
    meta.objects[TENANTS, "", "acme"] = {"metadata": metadata}
    return meta


@pytest.mark.parametrize(("made_for", "removed"), [("u1", True), ("u2", False), ("", False)])
async def test_only_the_tenant_of_the_virtual_cluster_is_removed(made_for: str, removed: bool) -> None:
    meta = with_tenant(made_for)
    await remove_record(meta, "acme", "u1")  # type: ignore[arg-type]
    assert meta.deleted == ([("acme", "record")] if removed else [])


async def test_a_tenant_that_is_being_deleted_is_not_deleted_again() -> None:
    meta = with_tenant("u1", deleting=True)
    await remove_record(meta, "acme", "u1")  # type: ignore[arg-type]
    assert meta.deleted == []


async def test_a_virtual_cluster_can_be_deleted_without_the_permission_to_remove_its_tenant() -> None:
    meta = with_tenant("u1")
    meta.fails = Forbidden(Status(403, message="tenants is forbidden"))
    await remove_record(meta, "acme", "u1")  # type: ignore[arg-type]
    assert meta.deleted == []


async def test_a_tenant_is_removed_with_its_orphaned_root_namespace() -> None:
    meta = with_tenant("u1")
    await remove_orphaned_root(meta, KEY, passes)  # type: ignore[arg-type]
    assert meta.deleted == [("acme", "record"), (KEY, "root")]


@pytest.mark.parametrize("missing", [names.VC_NAME, names.VC_NAMESPACE, names.VC_UID])
async def test_a_root_namespace_without_owner_annotations_is_kept(missing: str) -> None:
    meta = Meta({key: value for key, value in OWNED.items() if key != missing})
    await remove_orphaned_root(meta, KEY, passes)  # type: ignore[arg-type]
    assert meta.deleted == []


class Refusing(Meta):
    """A meta cluster that answers reads of the root namespace, or deletions, with an error."""

    def __init__(self, error: Exception, verb: str) -> None:
        super().__init__()
        self.error, self.verb = error, verb

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Envelope:
        if self.verb == "get" and resource == NAMESPACES:
            raise self.error
        return await super().get(resource, name, namespace)

    async def delete(self, *_: object, **__: object) -> None:  # type: ignore[override]
        raise self.error if self.verb == "delete" else AssertionError("it could not be read")


@pytest.mark.parametrize(
    ("verb", "error"),
    [
        ("get", Forbidden(Status(403))),
        ("delete", Forbidden(Status(403))),
        ("delete", NotFound(Status(404))),
        ("delete", Conflict(Status(409))),
    ],
)
async def test_a_root_namespace_that_is_forbidden_or_was_replaced_is_skipped(
    verb: str, error: Exception
) -> None:
    await remove_root(Refusing(error, verb), KEY, "u1")  # type: ignore[arg-type]
    await remove_orphaned_root(Refusing(error, verb), KEY, passes)  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", ["get", "delete"])
async def test_a_root_namespace_that_could_not_be_removed_now_is_tried_again(verb: str) -> None:
    meta = Refusing(Unreachable("cut", endpoint="meta"), verb)
    with pytest.raises(Unreachable):
        await remove_root(meta, KEY, "u1")  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [NotFound(Status(404)), Conflict(Status(409))])
async def test_a_tenant_that_is_gone_or_was_replaced_is_skipped(error: Exception) -> None:
    meta = Refusing(error, "delete")
    meta.objects |= with_tenant("u1").objects
    await remove_record(meta, "acme", "u1")  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", ["get", "delete"])
async def test_the_log_says_why_a_root_namespace_remains_and_names_the_remedy(verb: str) -> None:
    error = Forbidden(Status(403, message="namespaces is forbidden"))
    with capture_logs() as logged:
        await remove_root(Refusing(error, verb), KEY, "u1")  # type: ignore[arg-type]
    assert logged == [
        {
            "event": "root namespace not removed: outdated permissions; run 'vcsync install' again, "
            "then delete the namespace",
            "tenant": KEY,
            "error": str(error),
            "log_level": "warning",
        }
    ]


async def test_the_log_says_why_a_tenant_remains_and_names_the_remedy() -> None:
    meta = with_tenant("u1")
    meta.fails = Forbidden(Status(403, message="tenants is forbidden"))
    with capture_logs() as logged:
        await remove_record(meta, "acme", "u1")  # type: ignore[arg-type]
    assert logged == [
        {
            "event": "Tenant not removed: outdated permissions; run 'vcsync install' again, "
            "then delete the Tenant",
            "tenant": "acme",
            "error": str(meta.fails),
            "log_level": "warning",
        }
    ]


async def test_removals_are_logged() -> None:
    with capture_logs() as logged:
        await remove_orphaned_root(with_tenant("u1"), KEY, passes)  # type: ignore[arg-type]
    assert logged == [
        {"event": "Tenant removed", "tenant": "acme", "log_level": "info"},
        {"event": "root namespace removed", "tenant": KEY, "log_level": "info"},
    ]
