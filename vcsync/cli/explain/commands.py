"""`vcsync explain ...`: explains the state of one Pod or namespace."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import click

from vcsync.api.names import ROLE_PODSCHEDULER
from vcsync.api.objects import NamespacePlacement, SuperCluster, VirtualCluster, cluster_key, to_wire
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS
from vcsync.cli.command.common import endpoint_option, meta_client, meta_option, output_option
from vcsync.cli.command.endpoints import roles_of, timeline_of
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.output import document, legible, print_names
from vcsync.cli.explain.story import namespace_story, pod_story, transition_lines, waiting_reason
from vcsync.cli.status.troubles import sentences
from vcsync.cli.super.commands import read_ledger
from vcsync.fairqueue import ObjectName
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import NAMESPACES, PODS, Resource
from vcsync.objects.envelope import Envelope, to_dict
from vcsync.registration.clients import stored_client
from vcsync.registration.registered import require_tenant
from vcsync.tenancy.credentials import CredentialsReader


@click.group(epilog=example("vcsync explain pod acme/default/web-0", "vcsync explain namespace acme/default"))
def explain() -> None:
    """Explain where a pod or namespace is and why, or what it waits for."""


@explain.command(epilog=example("vcsync explain pod acme/default/web-0 --endpoint 127.0.0.1:10550"))
@click.argument("target", metavar="TENANT/NAMESPACE/NAME")
@endpoint_option
@output_option
@meta_option
def pod(target: str, endpoint: tuple[str, ...], form: str, meta: str | None) -> None:
    """Explain where a Pod of a tenant runs, or what it waits for.

    With --endpoint it includes what the running roles wait for and what they last did about the Pod.
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
        ledger = await read_ledger(client)
    if found is None:
        raise FailedError("\n".join((f"tenant {tenant} has no Pod {key[0]}/{key[1]}", *sentences(vc))))
    plain = to_dict(found)
    reason = waiting_reason(roles, cluster_key(vc), (PODS.plural, *key))
    story = pod_story(
        f"{tenant}/{key[0]}/{key[1]}",
        plain,
        placement,
        supers,
        datetime.now(UTC),
        ledger=ledger,
        syncer_reason=reason,
    )
    story += sentences(vc)
    tenants = (cluster_key(vc), vc.spec.tenant or vc.name)
    transitions = await timeline_of(endpoint, tenants, ObjectName(PODS.plural, *key))
    story += transition_lines(transitions)
    facts = {"timeline": transitions, "pod": plain, "placement": _facts(placement)}
    _tell(story, facts, form, f"pod/{tenant}/{key[0]}/{key[1]}")


@explain.command(epilog=example("vcsync explain namespace acme/default -o yaml"))
@click.argument("target", metavar="TENANT/NAMESPACE")
@output_option
@meta_option
def namespace(target: str, form: str, meta: str | None) -> None:
    """Explain on which super clusters a tenant's namespace has its slices, and why."""
    tenant, name = _split(target, 2, "TENANT/NAMESPACE")
    asyncio.run(_explain_namespace(tenant, name, form, meta))


async def _explain_namespace(tenant: str, name: str, form: str, meta: str | None) -> None:
    async with meta_client(meta) as client:
        vc = await require_tenant(client, tenant)
        placement = await _placement(client, vc, name)
        supers = await _supers(client)
        ledger = await read_ledger(client)
        if placement is None and await _tenant_object(client, vc, NAMESPACES, name) is None:
            raise FailedError("\n".join((f"tenant {tenant} has no namespace {name}", *sentences(vc))))
    story = namespace_story(f"{tenant}/{name}", placement, supers, datetime.now(UTC), ledger)
    story += sentences(vc)
    facts = {"placement": _facts(placement)}
    _tell(story, facts, form, f"namespace/{tenant}/{name}")


def _tell(story: list[str], facts: dict[str, Any], form: str, name: str) -> None:
    if form in ("table", "wide"):
        click.echo("\n".join(map(legible, story)))
    elif form == "name":
        print_names([name])
    else:
        click.echo(document({"story": story, **facts}, form))


def _split(target: str, parts: int, form: str) -> list[str]:
    """Split the name that the user gave.

    Raises:
        WrongInputError: It has a wrong number of parts.
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
