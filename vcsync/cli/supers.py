"""`vcsync super ...`: the pool's super clusters."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from vcsync.api import names, rbac
from vcsync.api.conditions import condition_of
from vcsync.api.credentials import super_credentials
from vcsync.api.fields import PercentOrQuantity
from vcsync.api.names import require_super_id
from vcsync.api.objects import NamespacePlacement, SuperCluster, to_wire
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS
from vcsync.api.specs import DEFAULT_EVICTION_SECONDS
from vcsync.cli import manifests
from vcsync.cli.common import (
    admin_client,
    as_given_option,
    kubeconfig_option,
    meta_client,
    meta_option,
    output_option,
    parse_amounts,
    stored_client,
)
from vcsync.cli.errors import FailedError, WrongInputError
from vcsync.cli.help import example
from vcsync.cli.identity import (
    check_super_cluster,
    claim_super_cluster,
    cluster_uid,
    release_super_cluster,
)
from vcsync.cli.kubeconfigs import Admin, read_admin, with_token
from vcsync.cli.output import age, print_objects
from vcsync.cli.registered import check_new_super_cluster
from vcsync.cli.tokens import token_of, wait_until_usable
from vcsync.kube.amounts import readable
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, NotFound
from vcsync.kube.kubeconfig import Cluster
from vcsync.kube.resources import NAMESPACES, SECRETS
from vcsync.scheduling.resources import from_quantities, to_quantities
from vcsync.scheduling.snapshot import InvalidHeadroom, capacity_to_deal

id_argument = click.argument("super_id", metavar="ID")


@click.group(
    name="super",
    epilog=example(
        "vcsync super add r1 --kubeconfig r1.kubeconfig",
        "vcsync super list",
    ),
)
def supers() -> None:
    """Register, list, cordon, drain and remove super clusters."""


@supers.command(
    epilog=example(
        "vcsync super add r1 --kubeconfig r1.kubeconfig --headroom cpu=10%,memory=8Gi",
    )
)
@id_argument
@kubeconfig_option
@click.option(
    "--headroom",
    multiple=True,
    metavar="RESOURCE=SHARE",
    help="What to keep free: a percentage of what is allocatable or an amount (cpu=10%,memory=8Gi).",
)
@as_given_option
@meta_option
def add(super_id: str, kubeconfig: Path, headroom: tuple[str, ...], as_given: bool, meta: str | None) -> None:
    """Add a super cluster to the pool under the id ID, a DNS label that is part of node names and labels.

    In the super cluster this makes the namespace vcsync-system, a ServiceAccount with the rights a syncer
    needs and the ConfigMap kube-system/supercluster-info, which says whose it is: a cluster cannot be in two
    pools or be registered twice. In the meta cluster it stores the credentials and the SuperCluster object.
    """
    require_super_id(super_id)
    spec: dict[str, Any] = {"id": super_id}
    if headroom:
        spec["headroom"] = parse_amounts("--headroom", headroom, kind=PercentOrQuantity)
    admin = read_admin(kubeconfig, as_given=as_given)
    asyncio.run(_add(super_id, admin, spec, as_given, meta))


async def _add(super_id: str, admin: Admin, spec: dict[str, Any], as_given: bool, meta: str | None) -> None:
    async with meta_client(meta) as meta_cluster, admin_client(admin.path, super_id) as super_cluster:

        async def credentials() -> bytes:
            if as_given:
                return admin.content
            return await make_credentials(super_cluster, super_id, admin.cluster)

        version = await register(meta_cluster, super_cluster, super_id, spec, credentials)
    click.echo(f"super cluster {super_id} ({version}, {admin.cluster.server}) is in the pool")
    click.echo(f"next: vcsync run syncer --super-cluster {super_id}   ('vcsync run all' starts it by itself)")


async def register(
    meta_cluster: Client,
    super_cluster: Client,
    super_id: str,
    spec: dict[str, Any],
    credentials: Callable[[], Awaitable[bytes]],
) -> str:
    """Put a super cluster into the pool; return its version.

    Args:
        meta_cluster: where the pool is.
        super_cluster: the cluster, as its administrator.
        super_id: its id.
        spec: of the SuperCluster.
        credentials: makes the syncer's kubeconfig, once it is clear that the cluster is nobody else's.

    Raises:
        FailedError: there is one of that id, or the cluster is another one, of another pool, or a tenant's.
    """
    version: str = (await super_cluster.version()).get("gitVersion", "")
    if await find(meta_cluster, super_id) is not None:
        raise FailedError(
            f"super cluster {super_id} is registered already; choose another id, "
            f"or take it out with 'vcsync super remove {super_id}'"
        )
    uid = await cluster_uid(super_cluster)
    await check_new_super_cluster(meta_cluster, uid)
    await claim_super_cluster(super_cluster, super_id, await cluster_uid(meta_cluster))
    stored = await credentials()
    async with stored_client(stored, f"{super_id} with the syncer's credentials") as syncer:
        await wait_until_usable(syncer, NAMESPACES.path())
    await store_credentials(meta_cluster, super_id, stored)
    body = {
        "apiVersion": SUPER_CLUSTERS.api_version,
        "kind": SUPER_CLUSTERS.kind,
        "metadata": {"name": super_id, "annotations": {names.CLUSTER_UID: uid}},
        "spec": spec,
    }
    try:
        await meta_cluster.create(SUPER_CLUSTERS, body)
    except AlreadyExists as error:
        raise FailedError(f"super cluster {super_id} was registered by someone else just now") from error
    return version


async def store_credentials(meta_cluster: Client, super_id: str, kubeconfig: bytes) -> None:
    """Keep the kubeconfig by which the syncer of a super cluster reaches it."""
    secret = manifests.secret(
        names.SYSTEM_NAMESPACE, names.super_secret(super_id), names.KUBECONFIG_KEY, kubeconfig
    )
    await manifests.apply(meta_cluster, [secret, *rbac.super_credentials_access(super_id)])


async def make_credentials(super_cluster: Client, super_id: str, cluster: Cluster) -> bytes:
    """Make the syncer's ServiceAccount in the super cluster and a kubeconfig around its token."""
    await manifests.apply(super_cluster, rbac.super_manifests(super_id))
    account = names.service_account(names.ROLE_SYNCER)
    token = await token_of(super_cluster, account, names.SYSTEM_NAMESPACE)
    return with_token(cluster, name=super_id, user=account, token=token)


@supers.command(
    name="list",
    epilog=example(
        "vcsync super list -o json",
    ),
)
@output_option
@meta_option
def list_(form: str, meta: str | None) -> None:
    """List the super clusters of the pool."""
    asyncio.run(_list(form, meta))


HEADER = (
    "ID",
    "READY",
    "NODES",
    "CPU FREE",
    "MEMORY FREE",
    "PODS FREE",
    "SCHEDULING",
    "VERSION",
    "HEARTBEAT",
)


async def _list(form: str, meta: str | None) -> None:
    async with meta_client(meta) as client:
        found = [SuperCluster.from_envelope(envelope) for envelope in await client.list(SUPER_CLUSTERS)]
    print_objects([as_plain(one) for one in found], form, HEADER, [row(one) for one in found])


def as_plain(super_cluster: SuperCluster) -> dict[str, Any]:
    """Return a super cluster as plain values for JSON and YAML."""
    return {
        "name": super_cluster.name,
        "labels": super_cluster.labels,
        "spec": to_wire(super_cluster.spec),
        "status": to_wire(super_cluster.status),
    }


def row(super_cluster: SuperCluster) -> tuple[str, ...]:
    """Return a super cluster as a line of the table."""
    spec, status = super_cluster.spec, super_cluster.status
    free, dealt_out = capacity_of(super_cluster)
    ready = condition_of(status.conditions, "Ready")
    scheduling = "drains" if spec.drain else "cordoned" if spec.cordoned else "open"
    return (
        super_cluster.name,
        "Unknown"
        if ready is None
        else ready.status
        if ready.status == "True"
        else f"{ready.status} ({ready.reason})",
        f"{status.nodes.ready}/{status.nodes.total}",
        _free_of(free, dealt_out, "cpu"),
        _free_of(free, dealt_out, "memory"),
        _free_of(free, dealt_out, "pods"),
        scheduling,
        status.version,
        age(status.heartbeat_time) and f"{age(status.heartbeat_time)} ago",
    )


def capacity_of(super_cluster: SuperCluster) -> tuple[dict[str, str], dict[str, str]]:
    """Return what is free for tenants, and what of the nodes is for them at all: without the headroom."""
    spec, status = super_cluster.spec, super_cluster.status
    allocatable = from_quantities(status.allocatable)
    try:
        usable = capacity_to_deal(allocatable, spec.headroom, {})
    except InvalidHeadroom:  # its condition says so
        usable = allocatable
    free = {
        name: max(0, amount - (allocatable[name] - usable[name]))
        for name, amount in from_quantities(status.free).items()
        if name in allocatable
    }
    return to_quantities(free), to_quantities(usable)


def _free_of(free: dict[str, str], usable: dict[str, str], resource: str) -> str:
    if resource not in usable:
        return ""
    return f"{readable(free.get(resource, '0'), resource)} of {readable(usable[resource], resource)}"


@supers.command(
    epilog=example(
        "vcsync super cordon r1",
    )
)
@id_argument
@meta_option
def cordon(super_id: str, meta: str | None) -> None:
    """Give no new slices to a super cluster; what runs there stays."""
    asyncio.run(_change(super_id, {"cordoned": True}, meta))
    click.echo(f"super cluster {super_id} gets no new slices")


@supers.command(
    epilog=example(
        "vcsync super uncordon r1",
    )
)
@id_argument
@meta_option
def uncordon(super_id: str, meta: str | None) -> None:
    """Open a super cluster for slices again: ends cordon and drain."""
    asyncio.run(_change(super_id, {"cordoned": False, "drain": False}, meta))
    click.echo(f"super cluster {super_id} gets slices again")


@supers.command(
    epilog=example(
        "vcsync super drain r1 --wait && vcsync super remove r1",
    )
)
@id_argument
@click.option("--wait/--no-wait", default=False, help="Wait until nothing is left there.")
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=600.0, show_default=True, help="Seconds to wait."
)
@click.option(
    "--eviction-seconds",
    type=click.IntRange(0, 7 * 24 * 3600),
    metavar="SECONDS",
    help=f"How long Pods wait for their tenants' PodDisruptionBudgets; {DEFAULT_EVICTION_SECONDS} unless set before.",
)
@click.option("--force", is_flag=True, help="Pods wait for no PodDisruptionBudget: --eviction-seconds 0.")
@meta_option
def drain(  # noqa: PLR0917  one command's options
    super_id: str, wait: bool, timeout: float, eviction_seconds: int | None, force: bool, meta: str | None
) -> None:
    """Move everything away from a super cluster, as far as the others have room.

    Pods end as their tenants' PodDisruptionBudgets allow; 'vcsync explain pod' with --endpoint says what they wait for.
    """
    if force and eviction_seconds:
        raise WrongInputError("--force and --eviction-seconds contradict each other: give one of them")
    patience = 0 if force else eviction_seconds
    asyncio.run(_drain(super_id, wait, timeout, patience, meta))


async def _drain(super_id: str, wait: bool, seconds: float, patience: int | None, meta: str | None) -> None:
    spec: dict[str, Any] = {"drain": True}
    if patience is not None:
        spec["evictionSeconds"] = patience
    await _change(super_id, spec, meta)
    click.echo(f"super cluster {super_id} drains")
    if not wait:
        return
    async with meta_client(meta) as client:
        last: list[str] = []
        try:
            async with asyncio.timeout(seconds):
                while standing := await placed_on(client, super_id):
                    if standing != last:
                        click.echo(f"still there: {_some(standing)}")
                    last = standing
                    await asyncio.sleep(1)
        except TimeoutError:
            raise FailedError(
                f"super cluster {super_id} still holds {_some(last)} after {seconds:.0f} s; "
                "'vcsync explain namespace' says why they cannot move, 'vcsync explain pod' with --endpoint what Pods wait for"
            ) from None
    click.echo(f"super cluster {super_id} is empty")


async def _change(super_id: str, spec: dict[str, Any], meta: str | None) -> None:
    async with meta_client(meta) as client:
        await _require(client, super_id)
        await client.patch(SUPER_CLUSTERS, super_id, {"spec": spec})


@supers.command(
    epilog=example(
        "vcsync super drain r1 --wait",
        "vcsync super remove r1 --kubeconfig r1.kubeconfig",
    )
)
@id_argument
@click.option(
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Administrator's kubeconfig of the super cluster, to take away there what 'super add' made.",
)
@click.option("--force", is_flag=True, help="Even if namespaces stand there: the cluster is lost for good.")
@meta_option
def remove(super_id: str, kubeconfig: Path | None, force: bool, meta: str | None) -> None:
    """Take a super cluster out of the pool.

    Refuses while namespaces have slices there; drain it first. With --force it is given up: its slices move
    elsewhere, and whatever still runs in it is left running.
    """
    asyncio.run(_remove(super_id, kubeconfig, force, meta))


async def _remove(super_id: str, kubeconfig: Path | None, force: bool, meta: str | None) -> None:
    async with meta_client(meta) as client:
        super_cluster = await _require(client, super_id)
        standing = await placed_on(client, super_id)
        meta_uid = await cluster_uid(client)
        if kubeconfig is not None:
            async with admin_client(kubeconfig, super_id) as there:
                await _check_leads_there(there, super_cluster, meta_uid)
        if standing and not force:
            raise FailedError(
                f"super cluster {super_id} still holds {_some(standing)}; "
                f"run 'vcsync super drain {super_id} --wait' first, or give it up with --force"
            )
        await client.delete(SUPER_CLUSTERS, super_id)
        secret = super_credentials(super_cluster)
        if secret.namespace == names.SYSTEM_NAMESPACE and secret.name == names.super_secret(super_id):
            await manifests.delete_if_there(client, SECRETS, secret.name, secret.namespace)
        await manifests.delete(client, rbac.super_credentials_access(super_id, secret))
        if standing:
            await _give_up(client, super_id)
        click.echo(f"super cluster {super_id} is out of the pool")
        if kubeconfig is None:
            mark, info = f"{names.MADE_FOR_SUPER_CLUSTER}={super_id}", names.SUPER_CLUSTER_INFO
            click.echo("what 'super add' made in it still stands; with its administrator's kubeconfig run:")
            click.echo(f"  kubectl delete namespace,clusterrole,clusterrolebinding -l {mark}")
            click.echo(f"  kubectl delete configmap -n {names.SUPER_CLUSTER_INFO_NAMESPACE} {info}")
            return
    async with admin_client(kubeconfig, super_id) as there:
        left = await manifests.delete_marked(
            there, rbac.super_manifests(), names.MADE_FOR_SUPER_CLUSTER, super_id
        )
        await release_super_cluster(there, super_id, meta_uid)
    click.echo("what was made for it there is removed from it")
    if left:
        click.echo(f"left alone, as it was not made for super cluster {super_id}: {', '.join(left)}")


async def _check_leads_there(there: Client, super_cluster: SuperCluster, meta_uid: str) -> None:
    """Refuse a kubeconfig that leads elsewhere than to the super cluster. Nothing has been removed when this raises.

    Raises:
        FailedError: it does.
    """
    uid = await cluster_uid(there)
    if uid == meta_uid:
        raise FailedError(
            "the kubeconfig leads to the meta cluster; nothing was removed: "
            "leave --kubeconfig away to remove only the registration"
        )
    await check_super_cluster(there, super_cluster.name, meta_uid)
    if super_cluster.annotations.get(names.CLUSTER_UID, uid) != uid:
        raise FailedError(
            f"the kubeconfig leads to another cluster than super cluster {super_cluster.name!r}; "
            "nothing was removed"
        )


async def _give_up(client: Client, super_id: str) -> None:
    """Drop the finalizers that only the lost super cluster's syncer could drop."""
    finalizers = (names.drain_finalizer(super_id), names.clear_finalizer(super_id))
    for envelope in await client.list(NAMESPACE_PLACEMENTS):
        left = [one for one in envelope.finalizers if one not in finalizers]
        if len(left) < len(envelope.finalizers):
            patch = {"metadata": {"finalizers": left, "resourceVersion": envelope.resource_version}}
            await client.patch(NAMESPACE_PLACEMENTS, envelope.name, patch, envelope.namespace)


async def placed_on(client: Client, super_id: str) -> list[str]:
    """Return the tenant namespaces (``cluster key/namespace``) with slices or remains on a super cluster."""
    finalizer = names.drain_finalizer(super_id)
    found = []
    for envelope in await client.list(NAMESPACE_PLACEMENTS):
        placement = NamespacePlacement.from_envelope(envelope)
        if placement.status.placements.get(super_id) or finalizer in placement.finalizers:
            found.append(f"{placement.namespace}/{placement.name}")
    return sorted(found)


async def find(client: Client, super_id: str) -> SuperCluster | None:
    """Return a super cluster of the pool; None: it has none of that id."""
    try:
        return SuperCluster.from_envelope(await client.get(SUPER_CLUSTERS, super_id))
    except NotFound as error:
        if error.status.details is None or not error.status.details.name:
            raise  # the resource type is unknown: not installed
        return None


async def _require(client: Client, super_id: str) -> SuperCluster:
    found = await find(client, require_super_id(super_id))
    if found is None:
        raise FailedError(f"there is no super cluster {super_id}; 'vcsync super list' shows those there are")
    return found


def _some(texts: list[str], most: int = 5) -> str:
    """Name a few of many."""
    rest = f" and {len(texts) - most} more" if len(texts) > most else ""
    return f"{len(texts)} namespace{'s' if len(texts) != 1 else ''} ({', '.join(texts[:most])}{rest})"
