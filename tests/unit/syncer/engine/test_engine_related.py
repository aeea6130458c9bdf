"""A change of an object queues the items that name it."""

from __future__ import annotations

from engine_paper import PaperApi

from vcsync.kube.resources import ENDPOINT_SLICES, SERVICES
from vcsync.objects.envelope import Envelope
from vcsync.syncer.caches import TenantCaches
from vcsync.syncer.kinds import KINDS
from vcsync.syncer.kinds.endpointslice import SERVICE_NAME


async def test_a_change_of_a_service_queues_the_slices_that_name_it() -> None:
    queued: list[tuple[str, str, str]] = []
    caches = TenantCaches(
        PaperApi("tenant"),  # type: ignore[arg-type]
        tenant="acme",
        super_id="r1",
        kinds=KINDS,
        is_placed=lambda *_: True,
        enqueue=lambda _, item: queued.append((item.kind, item.namespace, item.name)),
        wake=lambda *_: None,
        on_pod=lambda _: None,
    )
    for namespace, name, service in (
        ("shop", "db-1", "db"),
        ("shop", "db-2", "db"),
        ("shop", "web-1", "web"),
        ("other", "db-1", "db"),
    ):
        labels = {SERVICE_NAME: service}
        caches.reflectors[ENDPOINT_SLICES].observe(
            Envelope(name, namespace, f"uid-{namespace}-{name}", "1", labels=labels)
        )
    queued.clear()
    caches.reflectors[SERVICES].observe(Envelope("db", "shop", "uid-db", "1", spec=b"{}"))
    assert sorted(each for each in queued if each[0] == "endpointslices") == [
        ("endpointslices", "shop", "db-1"),
        ("endpointslices", "shop", "db-2"),
    ]
