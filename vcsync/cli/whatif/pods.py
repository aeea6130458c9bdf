"""Reads the Pods of tenants on super clusters, and their claims. It writes to no cluster."""

import asyncio
from collections.abc import Collection, Iterable

from vcsync.api import names
from vcsync.api.objects import VirtualCluster, cluster_key
from vcsync.cli.command.common import note
from vcsync.kube.client import Client
from vcsync.kube.errors import KubeError
from vcsync.kube.long_lists import take_pages
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from vcsync.registration.clients import stored_client
from vcsync.tenancy.credentials import CredentialsReader
from vcsync.whatif.pods import TenantPods
from vcsync.whatif.snapshot import Snapshot

_CONCURRENCY = 4
"""Number of tenants that are read at a time."""
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_MOST_NAMED = 5
_ANSWER_SECONDS = 60.0
"""Longest time that a tenant's control plane may take."""
_MOST_PAGES = 200
"""Most pages of 500 objects that are read of a tenant, whose control plane may never come to an end."""


async def read_pods(
    meta: Client, tenants: Iterable[VirtualCluster], wanted: Collection[str]
) -> dict[str, TenantPods]:
    """Return the Pods of tenants, by cluster key. A tenant whose control plane does not answer is left out, and named on stderr.

    Args:
        meta: client of the meta cluster.
        tenants: all tenants.
        wanted: cluster keys of those whose Pods matter.
    """
    reader = CredentialsReader(meta, names.ROLE_NSSCHEDULER)
    waiting = iter([each for each in tenants if cluster_key(each) in wanted and not each.deleting])
    found: dict[str, TenantPods] = {}
    failed: list[str] = []

    async def work() -> None:
        for vc in waiting:
            name = vc.spec.tenant or vc.name
            try:
                kubeconfig = await reader.read(vc)
                async with (
                    asyncio.timeout(_ANSWER_SECONDS),
                    stored_client(kubeconfig, f"tenant {name}") as client,
                ):
                    found[cluster_key(vc)] = await _read(client)
            except KubeError as error:
                failed.append(f"{name} ({error})")
            except TimeoutError:
                failed.append(f"{name} (no answer after {_ANSWER_SECONDS:g} seconds)")

    async with asyncio.TaskGroup() as tasks:
        for _ in range(_CONCURRENCY):
            tasks.create_task(work())
    if failed:
        more = len(failed) - _MOST_NAMED
        shown = "; tenant ".join(sorted(failed)[:_MOST_NAMED]) + (f"; {more} more" if more > 0 else "")
        note(f"Pods that cannot be read are left out: tenant {shown}")
    return found


async def _read(client: Client) -> TenantPods:
    found = TenantPods()
    pods = client.pages(PODS, label_selector=names.SUPER_CLUSTER, field_selector=_UNFINISHED)
    await take_pages(pods, found.add_pods, _MOST_PAGES)
    claims = client.pages(PERSISTENT_VOLUME_CLAIMS, label_selector=names.SUPER_CLUSTER)
    await take_pages(claims, found.add_claims, _MOST_PAGES)
    return found


def tenants_on(snapshot: Snapshot, supers: Collection[str] | None) -> set[str]:
    """Return the cluster keys of the tenants with slices on some super clusters; None stands for all."""
    return {
        each.tenant
        for each in snapshot.namespaces
        for super_id, slices in each.placements.items()
        if slices and (supers is None or super_id in supers)
    }
