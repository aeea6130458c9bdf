"""`vcsync super ...`: manages the pool's super clusters."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from vcsync.api import names, rbac
from vcsync.api.credentials import super_credentials
from vcsync.api.fields import PercentOrQuantity
from vcsync.api.names import require_super_id
from vcsync.api.objects import NamespacePlacement, SuperCluster, to_wire
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS
from vcsync.cli.command.common import (
    admin_client,
    as_given_option,
    kubeconfig_option,
    meta_client,
    meta_option,
    note,
    output_option,
    parse_amounts,
)
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.output import age, pairs, print_objects
from vcsync.cli.command.terminal import say
from vcsync.cli.registration.renewal import renew_super
from vcsync.cli.super.drain import change_spec, drain, placed_on, some, undrain
from vcsync.cli.super.fence import fence, id_argument, unfence
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists
from vcsync.kube.resources import ENDPOINT_SLICES, SECRETS
from vcsync.objects.readable_amounts import readable
from vcsync.registration import manifests
from vcsync.registration.accounts import (
    SuperKubeconfigs,
    check_usable,
    forget_stream_credentials,
    store_super_credentials,
    super_kubeconfigs,
)
from vcsync.registration.cluster_identity import (
    claim_super_cluster,
    cluster_uid,
    release_super_cluster,
)
from vcsync.registration.kubeconfigs import Admin, read_admin
from vcsync.registration.registered import (
    check_leads_there,
    check_new_super_cluster,
    find_super_cluster,
    require_super_cluster,
)
from vcsync.scheduling.ledger import Ledger
from vcsync.scheduling.slices import DIMENSIONS, PODS
from vcsync.tenancy.distribution import SliceAmounts, ledger_of, slice_amounts
from vcsync.tenancy.health import Judgement, judge_all_stored


def _network_id(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Check a network id.

    Raises:
        BadParameter: it is not a DNS label.
    """
    if text and not names.is_dns_label(text):
        raise click.BadParameter(
            f"{text!r} is not a DNS label: use lower case letters, digits and '-', at most {names.MAX_LABEL_LENGTH}"
        )
    return text


_NOT_REMOVED = "nothing was removed: omit --kubeconfig to remove only the registration"

network_option = click.option(
    "--network-id",
    metavar="NETWORK",
    callback=_network_id,
    help="Network whose super clusters route Pod addresses to each other: Services reach Pods on all of them. '' for none.",
)


@click.group(
    name="super",
    epilog=example(
        "vcsync super add r1 --kubeconfig r1.kubeconfig",
        "vcsync super list",
    ),
)
def supers() -> None:
    """Register, list, cordon, drain and remove super clusters."""


supers.add_command(renew_super)
supers.add_command(fence)
supers.add_command(unfence)
supers.add_command(drain)
supers.add_command(undrain)


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
    help="Capacity to keep free: a percentage of the allocatable resources or an amount (cpu=10%,memory=8Gi).",
)
@network_option
@as_given_option
@meta_option
def add(  # noqa: PLR0917  one command's options
    super_id: str,
    kubeconfig: Path,
    headroom: tuple[str, ...],
    network_id: str | None,
    as_given: bool,
    meta: str | None,
) -> None:
    """Add a super cluster to the pool under the id ID, a DNS label that is part of node names and labels.

    In the super cluster this creates the namespace vcsync-system, a ServiceAccount with the permissions that a
    syncer needs, another one for logs and exec of tenants' Pods, and the ConfigMap kube-system/supercluster-info,
    which names the pool: a cluster cannot be in two pools or be registered twice. In the meta cluster it stores the
    credentials and the SuperCluster object.
    """
    require_super_id(super_id)
    spec: dict[str, Any] = {"id": super_id}
    if headroom:
        spec["headroom"] = parse_amounts(
            "--headroom", headroom, kind=PercentOrQuantity, known=(*DIMENSIONS, PODS)
        )
    if network_id:
        spec["networkId"] = network_id
    admin = read_admin(kubeconfig, as_given=as_given)
    asyncio.run(_add(super_id, admin, spec, as_given, meta))


async def _add(super_id: str, admin: Admin, spec: dict[str, Any], as_given: bool, meta: str | None) -> None:
    async with meta_client(meta) as meta_cluster, admin_client(admin.path, super_id) as super_cluster:

        async def credentials() -> SuperKubeconfigs:
            if as_given:
                return SuperKubeconfigs(admin.content, None)
            return await super_kubeconfigs(super_cluster, super_id, admin.cluster, note)

        version = await register(meta_cluster, super_cluster, super_id, spec, credentials)
    say(f"super cluster {super_id} ({version}, {admin.cluster.server}) is in the pool")
    say(f"next: vcsync run syncer --super-cluster {super_id}   ('vcsync run all' starts it by itself)")


async def register(
    meta_cluster: Client,
    super_cluster: Client,
    super_id: str,
    spec: dict[str, Any],
    credentials: Callable[[], Awaitable[SuperKubeconfigs]],
) -> str:
    """Add a super cluster to the pool; return its version.

    Args:
        meta_cluster: client of the pool's meta cluster.
        super_cluster: client of the cluster, as its administrator.
        super_id: its id.
        spec: spec of the SuperCluster.
        credentials: creates the roles' kubeconfigs; called after the check that the cluster has no other role in a pool.

    Raises:
        FailedError: the id exists, or the cluster has another id, is in another pool, or is a tenant's.
    """
    version: str = (await super_cluster.version()).get("gitVersion", "")
    if await find_super_cluster(meta_cluster, super_id) is not None:
        raise FailedError(
            f"super cluster {super_id} is registered already; choose another id, "
            f"or remove it with 'vcsync super remove {super_id}'"
        )
    uid = await cluster_uid(super_cluster)
    await check_new_super_cluster(meta_cluster, uid)
    await claim_super_cluster(super_cluster, super_id, await cluster_uid(meta_cluster))
    stored = await credentials()
    await check_usable(stored.syncer, super_id)
    await store_super_credentials(meta_cluster, super_id, stored)
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
    "HEALTH",
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
        ledger = await read_ledger(client)
    judged = judge_all_stored(found, datetime.now(UTC))
    print_objects(
        [as_plain(one, ledger, judged[one.name]) for one in found],
        form,
        HEADER,
        [row(one, ledger, judged[one.name]) for one in found],
        names=[f"supercluster/{one.name}" for one in found],
        more=(WIDE_HEADER, [wide_row(one) for one in found]),
    )


async def read_ledger(client: Client) -> Ledger:
    """Read the ledger: slices of all tenants."""
    return ledger_of(map(NamespacePlacement.from_envelope, await client.list(NAMESPACE_PLACEMENTS)))


def as_plain(super_cluster: SuperCluster, ledger: Ledger, judgement: Judgement) -> dict[str, Any]:
    """Return a super cluster as plain values for JSON and YAML.

    Args:
        super_cluster: the super cluster.
        ledger: the slices distributed over the pool.
        judgement: its health.
    """
    slices = slice_amounts(super_cluster, ledger)
    return {
        "name": super_cluster.name,
        "labels": super_cluster.labels,
        "spec": to_wire(super_cluster.spec),
        "status": to_wire(super_cluster.status),
        "health": {"state": judgement.word, "reason": judgement.reason}
        | ({} if judgement.lasts is None else {"sinceSeconds": round(judgement.lasts)}),
        "capacity": slices.capacity,
        "dealt": slices.dealt,
        "free": slices.free,
    } | ({"problem": slices.problem} if slices.problem else {})


def row(super_cluster: SuperCluster, ledger: Ledger, judgement: Judgement) -> tuple[str, ...]:
    """Format a super cluster as a row of the table; arguments as for `as_plain`."""
    spec, status = super_cluster.spec, super_cluster.status
    slices = slice_amounts(super_cluster, ledger)
    scheduling = (
        "fenced" if spec.fenced else "drains" if spec.drain else "cordoned" if spec.cordoned else "open"
    )
    return (
        super_cluster.name,
        f"{judgement.word} ({judgement.reason})" if judgement.reason else judgement.word,
        f"{status.nodes.ready}/{status.nodes.total}",
        _free_of(slices, "cpu"),
        _free_of(slices, "memory"),
        _free_of(slices, "pods"),
        slices.problem or scheduling,
        status.version,
        age(status.heartbeat_time) and f"{age(status.heartbeat_time)} ago",
    )


WIDE_HEADER = ("HEADROOM", "OVERCOMMIT", "NETWORK", "LABELS")


def wide_row(super_cluster: SuperCluster) -> tuple[str, ...]:
    """Return the additional columns of a wide table."""
    return (
        pairs(super_cluster.spec.headroom),
        pairs(super_cluster.spec.overcommit),
        super_cluster.spec.network_id,
        pairs(super_cluster.labels),
    )


def _free_of(slices: SliceAmounts, resource: str) -> str:
    if resource not in slices.capacity:
        return ""
    return f"{readable(slices.free[resource], resource)} of {readable(slices.capacity[resource], resource)}"


@supers.command(
    name="set",
    epilog=example(
        "vcsync super set r1 --network-id frankfurt",
    ),
)
@id_argument
@network_option
@meta_option
def set_(super_id: str, network_id: str | None, meta: str | None) -> None:
    """Change settings of a super cluster.

    Super clusters with the same network id must route Pod addresses to each other, and no two of their Pods may have the same
    address.
    """
    if network_id is None:
        raise WrongInputError("nothing to change: give --network-id")
    asyncio.run(change_spec(super_id, {"networkId": network_id}, meta))
    said = f"is in network {network_id}" if network_id else "shares its Pod network with none"
    say(f"super cluster {super_id} {said}")


@supers.command(
    epilog=example(
        "vcsync super cordon r1",
    )
)
@id_argument
@meta_option
def cordon(super_id: str, meta: str | None) -> None:
    """Stop placing new slices on a super cluster. Running Pods stay."""
    asyncio.run(change_spec(super_id, {"cordoned": True}, meta))
    say(f"super cluster {super_id} gets no new slices")


@supers.command(
    epilog=example(
        "vcsync super uncordon r1",
    )
)
@id_argument
@meta_option
def uncordon(super_id: str, meta: str | None) -> None:
    """Allow slices on a super cluster again. This ends cordon and drain."""
    asyncio.run(change_spec(super_id, {"cordoned": False, "drain": False}, meta))
    say(f"super cluster {super_id} gets slices again")


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
    help="Administrator's kubeconfig of the super cluster, to delete the objects that 'super add' created there.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Remove it even if namespaces have slices there: the cluster is lost permanently.",
)
@meta_option
def remove(super_id: str, kubeconfig: Path | None, force: bool, meta: str | None) -> None:
    """Remove a super cluster from the pool.

    The command refuses while namespaces have slices there; drain it first. With --force the cluster is given up: its
    slices move elsewhere, and Pods that still run in it keep running.
    """
    asyncio.run(_remove(super_id, kubeconfig, force, meta))


async def _remove(super_id: str, kubeconfig: Path | None, force: bool, meta: str | None) -> None:
    async with meta_client(meta) as client:
        super_cluster = await require_super_cluster(client, super_id)
        standing = await placed_on(client, super_id)
        meta_uid = await cluster_uid(client)
        if kubeconfig is not None:
            async with admin_client(kubeconfig, super_id) as there:
                await check_leads_there(there, super_cluster, meta_uid, _NOT_REMOVED)
        if standing and not force:
            raise FailedError(
                f"super cluster {super_id} still holds {some(standing)}; "
                f"run 'vcsync super drain {super_id} --wait' first, or give it up with --force"
            )
        await client.delete(SUPER_CLUSTERS, super_id)
        secret = super_credentials(super_cluster)
        if secret.namespace == names.SYSTEM_NAMESPACE and secret.name == names.super_secret(super_id):
            await manifests.delete_if_there(client, SECRETS, secret.name, secret.namespace)
        await manifests.delete(client, rbac.super_credentials_access(super_id, secret))
        await forget_stream_credentials(client, super_id)
        await _forget_endpoints(client, super_id)
        if standing:
            await _give_up(client, super_id)
        say(f"super cluster {super_id} is out of the pool")
        if kubeconfig is None:
            mark, info = f"{names.MADE_FOR_SUPER_CLUSTER}={super_id}", names.SUPER_CLUSTER_INFO
            say(
                "the objects that 'super add' created in it are still there; to delete them, run as its administrator:"
            )
            say(f"  kubectl delete namespace,clusterrole,clusterrolebinding -l {mark}")
            say(f"  kubectl delete configmap -n {names.SUPER_CLUSTER_INFO_NAMESPACE} {info}")
            return
    async with admin_client(kubeconfig, super_id) as there:
        left = await manifests.delete_marked(
            there, rbac.super_manifests(), names.MADE_FOR_SUPER_CLUSTER, super_id
        )
        await release_super_cluster(there, super_id, meta_uid)
    say("the objects that 'super add' created in it are removed")
    if left:
        say(f"left alone, as it was not made for super cluster {super_id}: {', '.join(left)}")


async def _forget_endpoints(client: Client, super_id: str) -> None:
    """Remove the endpoints that a super cluster shared with others of its network."""
    selector = f"{names.SUPER_CLUSTER_ID}={super_id}"
    for found in await client.list(ENDPOINT_SLICES, names.ENDPOINTS_NAMESPACE, label_selector=selector):
        await manifests.delete_if_there(client, ENDPOINT_SLICES, found.name, names.ENDPOINTS_NAMESPACE)


async def _give_up(client: Client, super_id: str) -> None:
    """Remove the finalizers that only the lost super cluster's syncer could remove."""
    finalizers = (names.drain_finalizer(super_id), names.clear_finalizer(super_id))
    for envelope in await client.list(NAMESPACE_PLACEMENTS):
        left = [one for one in envelope.finalizers if one not in finalizers]
        if len(left) < len(envelope.finalizers):
            patch = {"metadata": {"finalizers": left, "resourceVersion": envelope.resource_version}}
            await client.patch(NAMESPACE_PLACEMENTS, envelope.name, patch, envelope.namespace)
