"""`vcsync super fence | unfence`: the operator's word that nothing runs on a super cluster any more, and its end."""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import click
from msgspec import Struct

from vcsync.api import names
from vcsync.api.objects import SuperCluster, cluster_key
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.cli.command.common import meta_client, meta_option
from vcsync.cli.command.errors import FailedError
from vcsync.cli.command.help import example
from vcsync.cli.command.super_kubeconfig import stored_kubeconfig
from vcsync.cli.command.terminal import say
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, CredentialsError, KubeError, NotFound
from vcsync.kube.resources import PODS
from vcsync.objects.envelope import Envelope
from vcsync.registration.clients import stored_client
from vcsync.registration.cluster_identity import cluster_uid
from vcsync.registration.registered import check_leads_there, require_super_cluster, virtual_clusters
from vcsync.tenancy.credentials import CredentialsReader
from vcsync.tenancy.health import judge_all_stored
from vcsync.tenancy.proof import recorded_uid

_POLL_SECONDS = 1.0
_MOST_NAMED = 5
_STAYS_FENCED = "it stays fenced"

id_argument = click.argument("super_id", metavar="ID")


@click.command(
    epilog=example(
        "vcsync super fence r2",
    )
)
@id_argument
@click.option("--force", is_flag=True, help="Also if its syncer and its API server answer.")
@meta_option
def fence(super_id: str, force: bool, meta: str | None) -> None:
    """Declare that no Pod runs on a lost super cluster any more, and that none will start there by itself.

    Make sure of that first: switch its nodes off, or cut them off from their storage and from the network. Pods of tenants that
    are being deleted there end at once, so that StatefulSets replace theirs. Slices leave it without further waiting, where the
    tenants' policies let them. Its syncer does nothing until 'vcsync super unfence'.
    """
    asyncio.run(_fence(super_id, force, meta))
    say(f"super cluster {super_id} is fenced: Pods that are being deleted there count as ended")


async def _fence(super_id: str, force: bool, meta: str | None) -> None:
    async with meta_client(meta) as client:
        await set_fence(client, super_id, force=force)


async def set_fence(meta: Client, super_id: str, *, force: bool = False) -> None:
    """Fence a super cluster.

    Args:
        meta: client of the meta cluster.
        super_id: id of the super cluster.
        force: also if its syncer and its API server answer.

    Raises:
        FailedError: they answer; the message names the remedy.
    """
    await require_super_cluster(meta, super_id)
    found = [SuperCluster.from_envelope(each) for each in await meta.list(SUPER_CLUSTERS)]
    judgement = judge_all_stored(found, datetime.now(UTC))[super_id]
    if not (judgement.out_of_touch or force):
        raise FailedError(
            f"super cluster {super_id} is not lost but {judgement.word.lower()}, and its Pods may run: drain it with "
            f"'vcsync super drain {super_id}', or fence it with --force once it is switched off"
        )
    await meta.patch(SUPER_CLUSTERS, super_id, {"spec": {"fenced": True}})


@click.command(
    epilog=example(
        "vcsync super unfence r2",
    )
)
@id_argument
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    help="Seconds to wait for the end of Pods.",
)
@meta_option
def unfence(super_id: str, timeout: float, meta: str | None) -> None:
    """Let a super cluster that is repaired take part again.

    Its API server and the control planes of the tenants with Pods there must answer. Pods there that their tenants do not
    have any more are deleted first, and the command waits for their end. Only then the super cluster's syncer begins to work.
    """
    asyncio.run(_unfence(super_id, timeout, meta))
    say(f"super cluster {super_id} is not fenced any more")


class Copy(Struct, frozen=True):
    """A Pod of a super cluster, and whose copy it is.

    Attributes:
        pod: the Pod.
        tenant: cluster key of the tenant.
        namespace: the tenant's namespace.
        uid: UID of the tenant's Pod.
    """

    pod: Envelope
    tenant: str
    namespace: str
    uid: str


def copies_of(pods: Iterable[Envelope]) -> list[Copy]:
    """Return the Pods that are copies of tenants' Pods."""
    found = []
    for pod in pods:
        marks = pod.annotations
        if (tenant := marks.get(names.CLUSTER)) and pod.labels.get(names.CONTROLLED) == names.TRUE:
            found.append(Copy(pod, tenant, marks.get(names.NAMESPACE, ""), marks.get(names.UID, "")))
    return found


def unwanted(copies: Iterable[Copy], wanted: Mapping[str, frozenset[str]]) -> list[Copy]:
    """Return the copies that must end before anything new starts.

    Args:
        copies: the Pods of the super cluster.
        wanted: cluster key -> UIDs of the tenant's Pods that are not being deleted.
    """
    return [copy for copy in copies if copy.uid not in wanted.get(copy.tenant, frozenset())]


async def _unfence(super_id: str, seconds: float, meta: str | None) -> None:
    async with meta_client(meta) as client:
        await lift_fence(client, super_id, seconds)


async def lift_fence(meta: Client, super_id: str, seconds: float) -> None:
    """Lift the fence of a super cluster, after the Pods there have ended that their tenants do not have any more.

    Args:
        meta: client of the meta cluster.
        super_id: id of the super cluster.
        seconds: time that these Pods have to end.

    Raises:
        FailedError: it stays fenced; the message says why.
    """
    super_cluster = await require_super_cluster(meta, super_id)
    if not super_cluster.spec.fenced:
        raise FailedError(f"super cluster {super_id} is not fenced")
    kubeconfig = await stored_kubeconfig(meta, super_id)
    async with stored_client(kubeconfig, f"super cluster {super_id}") as there:
        try:
            await check_leads_there(there, super_cluster, await cluster_uid(meta), _STAYS_FENCED)
            await _clear(meta, there, super_id, seconds)
        except KubeError as error:
            raise FailedError(f"super cluster {super_id} stays fenced: {error}") from error
    await meta.patch(SUPER_CLUSTERS, super_id, {"spec": {"fenced": False}})


async def _clear(meta: Client, there: Client, super_id: str, seconds: float) -> None:
    """Delete the Pods that their tenants do not have any more, and wait for their end."""
    left: list[Copy] = []
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = copies_of(await there.list(PODS, label_selector=f"{names.CONTROLLED}={names.TRUE}"))
                left = unwanted(found, await _wanted(meta, super_id, {each.tenant for each in found}))
                if not left:
                    return
                for copy in left:
                    await _delete(there, copy.pod)
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise FailedError(
            f"super cluster {super_id} stays fenced: {len(left)} Pods have not ended after {seconds:.0f} s "
            f"({_some(left)}); repair or remove their nodes, then run the command again"
        ) from None


async def _delete(there: Client, pod: Envelope) -> None:
    if pod.deleting:
        return
    try:
        await there.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
    except (NotFound, Conflict):
        return


async def _wanted(meta: Client, super_id: str, tenants: set[str]) -> dict[str, frozenset[str]]:
    """Return the UIDs of the tenants' Pods of a super cluster that are not being deleted. A tenant that has left wants none.

    Raises:
        FailedError: a tenant's control plane refused or did not answer.
    """
    reader = CredentialsReader(meta, names.ROLE_SYNCER)
    found: dict[str, frozenset[str]] = {}
    for vc in await virtual_clusters(meta):
        if vc.deleting or (key := cluster_key(vc)) not in tenants:
            continue
        name = vc.spec.tenant or vc.name
        try:
            async with stored_client(await reader.read(vc), f"tenant {name}") as tenant:
                if await cluster_uid(tenant) != recorded_uid(vc):
                    raise FailedError(
                        f"super cluster {super_id} stays fenced: the credentials of tenant {name} lead to another control "
                        f"plane; if it was replaced on purpose, run 'vcsync tenant accept {name}' first"
                    )
                pods = await tenant.list(PODS, label_selector=f"{names.SUPER_CLUSTER}={super_id}")
        except (KubeError, CredentialsError) as error:
            raise FailedError(
                f"super cluster {super_id} stays fenced: Pods of tenant {name} cannot be read: {error}"
            ) from error
        found[key] = frozenset(pod.uid for pod in pods if not pod.deleting)
    return found


def _some(copies: list[Copy]) -> str:
    shown = [f"{copy.pod.namespace}/{copy.pod.name}" for copy in copies[:_MOST_NAMED]]
    return ", ".join(shown) + (" and more" if len(copies) > _MOST_NAMED else "")
