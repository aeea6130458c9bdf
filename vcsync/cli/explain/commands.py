"""`vcsync explain ...`: explains the state of one Pod, namespace, Service or super cluster."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from vcsync.api.names import ENDPOINTS_NAMESPACE, ROLE_PODSCHEDULER, ROLE_SYNCER, SERVICE, super_namespace
from vcsync.api.objects import NamespacePlacement, SuperCluster, VirtualCluster, cluster_key, to_wire
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS
from vcsync.cli.command.common import meta_client, meta_option, output_option
from vcsync.cli.command.endpoints import Endpoints, endpoint_options, roles_of, timeline_of
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.output import document, print_names
from vcsync.cli.command.terminal import say
from vcsync.cli.explain.reach import facts, reaches, service_story
from vcsync.cli.explain.story import namespace_story, pod_story, score_lines, transition_lines, waiting_reason
from vcsync.cli.explain.super_story import super_story
from vcsync.cli.status.troubles import sentences
from vcsync.cli.super.commands import read_ledger
from vcsync.cli.tenant.aside import sentences as aside_sentences
from vcsync.cli.whatif.reading import read_pool, slice_of
from vcsync.fairqueue import ObjectName
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import ENDPOINT_SLICES, NAMESPACES, PODS, SERVICES, Resource
from vcsync.objects.envelope import Envelope, to_dict
from vcsync.process.legible import legible
from vcsync.registration.clients import stored_client
from vcsync.registration.registered import require_super_cluster, require_tenant
from vcsync.scheduling.slices import DEFAULT_SLICE
from vcsync.syncer.kinds.endpointslice import SERVICE_NAME
from vcsync.syncer.shared_slices import read_name
from vcsync.tenancy.credentials import CredentialsReader
from vcsync.tenancy.health import judge_all_stored
from vcsync.whatif.capture import capture
from vcsync.whatif.snapshot import as_plain
from vcsync.whatif.super_cluster import explain_super_cluster


@click.group(epilog=example("vcsync explain pod acme/default/web-0", "vcsync explain namespace acme/default"))
def explain() -> None:
    """Explain where a pod or namespace is and why, what it waits for, whom a service reaches, or a super cluster."""


@explain.command(epilog=example("vcsync explain pod acme/default/web-0 --endpoint 127.0.0.1:10550"))
@click.argument("target", metavar="TENANT/NAMESPACE/NAME")
@endpoint_options
@output_option
@meta_option
def pod(
    *,
    target: str,
    endpoint: tuple[str, ...],
    endpoint_token_file: Path | None,
    endpoint_ca: Path | None,
    form: str,
    meta: str | None,
) -> None:
    """Explain where a Pod of a tenant runs, or what it waits for.

    With --endpoint it includes what the running roles wait for and what they last did about the Pod.
    """
    tenant, namespace, name = _split(target, 3, "TENANT/NAMESPACE/NAME")
    endpoints = Endpoints(endpoint, endpoint_token_file, endpoint_ca)
    asyncio.run(_explain_pod(tenant, (namespace, name), endpoints, form, meta))


async def _explain_pod(
    tenant: str, key: tuple[str, str], endpoints: Endpoints, form: str, meta: str | None
) -> None:
    roles = await roles_of(endpoints)
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
    transitions = await timeline_of(endpoints, tenants, ObjectName(PODS.plural, *key))
    story += transition_lines(transitions)
    about = {"timeline": transitions, "pod": plain, "placement": _facts(placement)}
    _tell(story, about, form, f"pod/{tenant}/{key[0]}/{key[1]}")


@explain.command(epilog=example("vcsync explain namespace acme/default -o yaml"))
@click.argument("target", metavar="TENANT/NAMESPACE")
@output_option
@meta_option
def namespace(target: str, form: str, meta: str | None) -> None:
    """Explain on which super clusters a tenant's namespace has its slices, and why.

    The wide form adds each super cluster's score and the filters that refused it, as they were when the scheduler decided.
    """
    tenant, name = _split(target, 2, "TENANT/NAMESPACE")
    asyncio.run(_explain_namespace(tenant, name, form, meta))


async def _explain_namespace(tenant: str, name: str, form: str, meta: str | None) -> None:
    async with meta_client(meta) as client:
        vc = await require_tenant(client, tenant)
        aside = await aside_sentences(client, vc.spec.tenant or vc.name)
        placement = await _placement(client, vc, name)
        supers = await _supers(client)
        ledger = await read_ledger(client)
        if placement is None and await _tenant_object(client, vc, NAMESPACES, name) is None:
            raise FailedError("\n".join((f"tenant {tenant} has no namespace {name}", *sentences(vc))))
    story = namespace_story(f"{tenant}/{name}", placement, supers, datetime.now(UTC), ledger)
    if form == "wide" and placement is not None:
        story += score_lines(placement)
    story += aside + sentences(vc)
    _tell(story, {"placement": _facts(placement)}, form, f"namespace/{tenant}/{name}")


@explain.command(epilog=example("vcsync explain service acme/default/web -o json"))
@click.argument("target", metavar="TENANT/NAMESPACE/NAME")
@output_option
@meta_option
def service(target: str, form: str, meta: str | None) -> None:
    """Explain which super clusters have endpoints of a tenant's Service, and which of them each reaches.

    ENDPOINTS and READY are what the tenant's control plane lists, SHARED what the syncers share.
    """
    tenant, namespace, name = _split(target, 3, "TENANT/NAMESPACE/NAME")
    asyncio.run(_explain_service(tenant, namespace, name, form, meta))


async def _explain_service(tenant: str, namespace: str, name: str, form: str, meta: str | None) -> None:
    async with meta_client(meta) as client:
        vc = await require_tenant(client, tenant)
        kubeconfig = await CredentialsReader(client, ROLE_SYNCER).read(vc)
        async with stored_client(kubeconfig, f"tenant {vc.spec.tenant or vc.name}") as theirs:
            try:
                found = await theirs.get(SERVICES, name, namespace)
            except NotFound:
                raise FailedError(
                    "\n".join((f"tenant {tenant} has no Service {namespace}/{name}", *sentences(vc)))
                ) from None
            listed = await theirs.list(ENDPOINT_SLICES, namespace, label_selector=f"{SERVICE_NAME}={name}")
        place = super_namespace(cluster_key(vc), namespace)
        shared = [
            each
            for each in await client.list(
                ENDPOINT_SLICES, ENDPOINTS_NAMESPACE, label_selector=f"{SERVICE}={name}"
            )
            if (parts := read_name(each.name)) is not None and parts.place == place
        ]
        placement = await _placement(client, vc, namespace)
        lines = reaches(placement, await _supers(client), listed, shared, datetime.now(UTC))
    whole = f"{tenant}/{namespace}/{name}"
    story = service_story(whole, found, lines) + sentences(vc)
    _tell(story, {"superClusters": facts(lines)}, form, f"service/{whole}")


@explain.command(name="super", epilog=example("vcsync explain super r1 -o json"))
@click.argument("super_id", metavar="ID")
@click.option(
    "--slice-size",
    multiple=True,
    metavar="RESOURCE=AMOUNT",
    help="Size of the slices whose room is shown (default: that of a namespace scheduler without --default-slice).",
)
@output_option
@meta_option
def super_(super_id: str, slice_size: tuple[str, ...], form: str, meta: str | None) -> None:
    """Explain a super cluster: its health, what is placed there by tenant, and what it would take for new slices."""
    size = slice_of("--slice-size", slice_size) if slice_size else DEFAULT_SLICE
    asyncio.run(_explain_super(super_id, size, form, meta))


async def _explain_super(super_id: str, size: Mapping[str, str], form: str, meta: str | None) -> None:
    async with meta_client(meta) as client:
        await require_super_cluster(client, super_id)
        supers, tenants, placements = await read_pool(client)
    now = datetime.now(UTC)
    snapshot = capture(supers, tenants, placements, now=now, policy="spread", default_slice=size)
    found = explain_super_cluster(snapshot, super_id, size)
    judgement = judge_all_stored(supers, now)[super_id]
    facts = as_plain(found) | {
        "health": {"state": judgement.word, "reason": judgement.reason, "sinceSeconds": judgement.lasts}
    }
    _tell(super_story(found, judgement), facts, form, f"supercluster/{super_id}")


def _tell(story: list[str], facts: dict[str, Any], form: str, name: str) -> None:
    if form in ("table", "wide"):
        say("\n".join(map(legible, story)))
    elif form == "name":
        print_names([name])
    else:
        say(document({"story": story, **facts}, form))


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
