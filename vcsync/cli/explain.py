"""`vcsync explain ...`: the story of one Pod or namespace."""

import asyncio
from typing import Any

import click

from vcsync.api.names import ROLE_PODSCHEDULER, cluster_key
from vcsync.api.objects import NamespacePlacement, SuperCluster, VirtualCluster, to_wire
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS
from vcsync.cli.common import endpoint_option, meta_client, meta_option, output_option, stored_client
from vcsync.cli.endpoints import roles_of
from vcsync.cli.errors import FailedError, WrongInputError
from vcsync.cli.help import example
from vcsync.cli.output import document, legible
from vcsync.cli.registered import require_tenant
from vcsync.cli.story import namespace_story, pod_story, waiting_reason
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope, to_dict
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import NAMESPACES, PODS, Resource
from vcsync.tenancy.credentials import CredentialsReader


@click.group(epilog=example("vcsync explain pod acme/default/web-0", "vcsync explain namespace acme/default"))
def explain() -> None:
    """Say where a pod or namespace is and why, or what it waits for."""


@explain.command(epilog=example("vcsync explain pod acme/default/web-0 --endpoint 127.0.0.1:10550"))
@click.argument("target", metavar="TENANT/NAMESPACE/NAME")
@endpoint_option
@output_option
@meta_option
def pod(target: str, endpoint: tuple[str, ...], form: str, meta: str | None) -> None:
    """Say where a Pod of a tenant runs, or what it waits for.

    With --endpoint the syncers are asked, too, what they wait for.
    """
    tenant, namespace, name = _split(target, 3, "TENANT/NAMESPACE/NAME")
    asyncio.run(_explain_pod(tenant, (namespace, name), endpoint, form, meta))


async def _explain_pod(
    tenant: str, key: tuple[str, str], endpoint: tuple[str, ...], form: str, meta: str | None
) -> None:
    roles = await roles_of(endpoint)
    async with meta_client(meta) as client:
        vc = await require_tenant(client, tenant)
        found = await _tenant_object(client, vc, PODS, key[1], key[0])
        placement = await _placement(client, vc, key[0])
        supers = await _supers(client)
    if found is None:
        raise FailedError(f"tenant {tenant} has no Pod {key[0]}/{key[1]}")
    plain = to_dict(found)
    reason = waiting_reason(roles, cluster_key(vc), (PODS.plural, *key))
    story = pod_story(f"{tenant}/{key[0]}/{key[1]}", plain, placement, supers, reason)
    facts = {"pod": plain, "placement": _facts(placement)}
    click.echo(
        "\n".join(map(legible, story)) if form == "table" else document({"story": story, **facts}, form)
    )


@explain.command(epilog=example("vcsync explain namespace acme/default -o yaml"))
@click.argument("target", metavar="TENANT/NAMESPACE")
@output_option
@meta_option
def namespace(target: str, form: str, meta: str | None) -> None:
    """Say on which super clusters a tenant's namespace has its slices, and why there."""
    tenant, name = _split(target, 2, "TENANT/NAMESPACE")
    asyncio.run(_explain_namespace(tenant, name, form, meta))


async def _explain_namespace(tenant: str, name: str, form: str, meta: str | None) -> None:
    async with meta_client(meta) as client:
        vc = await require_tenant(client, tenant)
        placement = await _placement(client, vc, name)
        supers = await _supers(client)
        if placement is None and await _tenant_object(client, vc, NAMESPACES, name) is None:
            raise FailedError(f"tenant {tenant} has no namespace {name}")
    story = namespace_story(f"{tenant}/{name}", placement, supers)
    facts = {"placement": _facts(placement)}
    click.echo(
        "\n".join(map(legible, story)) if form == "table" else document({"story": story, **facts}, form)
    )


def _split(target: str, parts: int, form: str) -> list[str]:
    """Split what the user names.

    Raises:
        WrongInputError: It has another number of parts.
    """
    split = target.split("/")
    if len(split) != parts or not all(split):
        raise WrongInputError(
            f"{target!r}: give {form}, for instance {'/'.join(('acme', 'default', 'web-0')[:parts])}"
        )
    return split


async def _tenant_object(
    meta: Client, vc: VirtualCluster, resource: Resource, name: str, namespace: str = ""
) -> Envelope | None:
    """Read an object in a tenant's control plane, with the credentials of the pod scheduler."""
    kubeconfig = await CredentialsReader(meta, ROLE_PODSCHEDULER).read(vc)
    async with stored_client(kubeconfig, f"tenant {vc.spec.tenant or vc.name}") as client:
        try:
            return await client.get(resource, name, namespace)
        except NotFound:
            return None


async def _placement(meta: Client, vc: VirtualCluster, namespace: str) -> NamespacePlacement | None:
    try:
        return NamespacePlacement.from_envelope(
            await meta.get(NAMESPACE_PLACEMENTS, namespace, cluster_key(vc))
        )
    except NotFound:
        return None


async def _supers(meta: Client) -> dict[str, SuperCluster]:
    return {one.name: SuperCluster.from_envelope(one) for one in await meta.list(SUPER_CLUSTERS)}


def _facts(placement: NamespacePlacement | None) -> dict[str, Any] | None:
    if placement is None:
        return None
    return {"spec": to_wire(placement.spec), "status": to_wire(placement.status)}
