"""Mirrors of all tenants: changes of one tenant do not affect another."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Any

from vcsync.controllers.framework.mirror import Key, Mirror
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.objects.envelope import Envelope, OwnerReference, WatchEvent


def observed(name: str, tenant: str, version: int, *owners: OwnerReference) -> Envelope:
    uid = f"uid-{tenant}-{name}"
    return Envelope(name, "default", uid, str(version), owners=owners, tenant=tenant)


class Server:
    """Streams the given events, and then stays silent."""

    name = "server"

    def __init__(self, *events: tuple[str, Envelope]) -> None:
        self.events = [WatchEvent(kind, each) for kind, each in events]  # type: ignore[arg-type]

    async def watch_batches(self, *_: Any, **__: Any) -> AsyncGenerator[Sequence[WatchEvent], None]:
        end = Envelope("", resource_version="2", annotations={"k8s.io/initial-events-end": "true"})
        yield [WatchEvent("BOOKMARK", end)]
        yield self.events
        await asyncio.Event().wait()


async def mirrored(server: Server, tenant: str = "") -> Mirror:
    mirror = Mirror(server, CONFIG_MAPS, tenant=tenant)  # type: ignore[arg-type]
    task = asyncio.create_task(mirror.reflector.run())
    await mirror.reflector.wait_synced(5)
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return mirror


async def test_a_deletion_in_one_tenant_does_not_affect_another() -> None:
    added = [("ADDED", observed("a", tenant, 3)) for tenant in ("acme", "umbrella")]
    mirror = await mirrored(Server(*added, ("DELETED", observed("a", "acme", 4))))
    assert mirror.get("acme", "default", "a") is None
    assert mirror.get("umbrella", "default", "a") is not None


async def test_a_mirror_of_one_tenant_marks_objects_with_it() -> None:
    mirror = await mirrored(Server(("ADDED", observed("a", "", 3))), tenant="acme")
    [found] = mirror.within("acme", "default")
    assert found.tenant == "acme"
    mirror.observe_gone(Key("acme", "default", "a"), found.uid)
    assert list(mirror.everything()) == []


async def test_a_tenant_cannot_add_objects_to_another_tenants_ownerless_ones() -> None:
    sly = OwnerReference("v1", "Pod", "x", "acme/default")
    mirror = await mirrored(
        Server(("ADDED", observed("mine", "acme", 3)), ("ADDED", observed("sly", "umbrella", 4, sly)))
    )
    assert [each.name for each in mirror.orphans("acme", "default")] == ["mine"]
    assert [each.name for each in mirror.owned("acme/default")] == ["sly"]
