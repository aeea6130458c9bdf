"""`vcsync tenant set`: changes the limits of a tenant in the pool, of its requests and of its embedded control plane."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from vcsync.api.resources import TENANT_TEMPLATES, TENANTS, VIRTUAL_CLUSTERS
from vcsync.cli.command.common import meta_client
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.failover import fail_back_option, failover_option, pod_replacement_option
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.cli.controlplane.limit_options import LIMIT_FIELDS, LIMITS_METAVAR, parse_bytes, parse_limits
from vcsync.cli.tenant import embedded
from vcsync.cli.tenant.limits import (
    DEFAULT_QUOTA_HELP,
    FAIL_BACK_HELP,
    FAILOVER_HELP,
    POD_REPLACEMENT_HELP,
    QUOTA_HELP,
    SLICE_HELP,
    WEIGHT_HELP,
    amounts_option,
    changes,
    failover_of,
    limits_of,
)
from vcsync.cli.tenant.service_cidr import require_free, service_cidr_option
from vcsync.kube.errors import NotFound
from vcsync.registration.registered import is_managed, require_tenant


@click.command(
    name="set",
    epilog=example(
        "vcsync tenant set acme --quota cpu=100,memory=400Gi",
        "vcsync tenant set acme --weight 3 --default-quota ''",
        "vcsync tenant set acme --controllers external",
        "vcsync tenant set acme --storage 10Gi --objects default",
        "vcsync tenant set acme --limits readsPerSecond=100,watches=500 --user-limits readsPerSecond=20",
        "vcsync tenant set acme --template small",
        "vcsync tenant set acme --failover MoveAfter=5m",
    ),
)
@embedded.name_argument
@click.option("--weight", type=click.IntRange(1, 1000), default=None, help=WEIGHT_HELP)
@amounts_option("--default-quota", DEFAULT_QUOTA_HELP)
@amounts_option("--quota", QUOTA_HELP)
@amounts_option("--slice-size", SLICE_HELP)
@failover_option(FAILOVER_HELP)
@fail_back_option(FAIL_BACK_HELP)
@pod_replacement_option(POD_REPLACEMENT_HELP)
@click.option(
    "--controllers",
    type=embedded.CONTROLLERS,
    help="Controllers of an embedded control plane: those of vcsync, or of a kube-controller-manager that you run.",
)
@click.option(
    "--storage",
    metavar="SIZE",
    help="Storage in an embedded control plane; 0: no limit; default: the limit of all tenants.",
)
@click.option(
    "--objects", metavar="N", help="Number of objects there; 0: no limit; default: the limit of all tenants."
)
@click.option(
    "--limits",
    metavar=LIMITS_METAVAR,
    help="Limits of requests, all at once: readsPerSecond, readBurst, writesPerSecond, writeBurst, concurrentRequests, "
    "watches, bytesPerSecond. 0: no limit; what is missing: the limit of all tenants.",
)
@click.option("--user-limits", metavar=LIMITS_METAVAR, help="The same for each user of the tenant.")
@click.option(
    "--template",
    metavar="NAME",
    help="TenantTemplate that sets what the Tenant does not set itself; '': none. Only if a Tenant object manages the tenant.",
)
@service_cidr_option
@embedded.reaching
def set_(
    *,
    tenant: str,
    weight: int | None,
    default_quota: tuple[str, ...],
    quota: tuple[str, ...],
    slice_size: tuple[str, ...],
    failover: str | None,
    fail_back: str | None,
    pod_replacement: str | None,
    controllers: str | None,
    storage: str | None,
    objects: str | None,
    limits: str | None,
    user_limits: str | None,
    template: str | None,
    service_cidr: str | None,
    data: Path | None,
    meta: str | None,
) -> None:
    """Change the limits of the tenant NAME with immediate effect; an empty amount ('') removes a limit.

    A cap below the current slices does not remove any of them: the tenant gets no new slices until it has fewer.
    """
    embedded.check_name(tenant)
    share: dict[str, Any] = dict(limits_of(default_quota=default_quota, quota=quota, slice_size=slice_size))
    share |= failover_of(failover)
    if fail_back is not None:
        share["failBack"] = fail_back
    if pod_replacement is not None:
        share["podReplacementPolicy"] = pod_replacement
    if weight is not None:
        share["weight"] = weight
    if service_cidr is not None:
        share["serviceCidr"] = service_cidr
    given = {"controllers": controllers, "storage": storage, "objects": objects}
    own = _of_control_plane(controllers, storage, objects)
    requests = _of_requests(limits, user_limits)
    if not share and not own and requests is None and template is None:
        raise WrongInputError(
            "give at least one option: --weight, --quota, --default-quota, --slice-size, --failover, --fail-back, "
            "--pod-replacement-policy, --template or --service-cidr; for an embedded control plane also --controllers, "
            "--storage, --objects, --limits or --user-limits"
        )
    if template is not None:
        asyncio.run(_name_template(tenant, template, data, meta))
        say(f"template of tenant {tenant}: {template or 'none'}")
    if own:
        asyncio.run(embedded.change(tenant, own, data, meta))
        for name, value in given.items():
            if value is not None:
                say(f"{name} of tenant {tenant}: {value}")
    if requests is not None:
        asyncio.run(_limit_requests(tenant, requests, data, meta))
        say(f"limits of requests of tenant {tenant}: {shown_limits(requests)}")
    if share:
        asyncio.run(_set(tenant, share, str(embedded.kubeconfig_of(data, meta)) if data else meta))


def _of_control_plane(
    controllers: str | None, storage: str | None, objects: str | None
) -> dict[str, str | int | None]:
    wanted: dict[str, str | int | None] = {}
    if controllers is not None:
        wanted["controllers"] = controllers
    if storage is not None:
        wanted["storageBytes"] = None if storage == "default" else parse_bytes(storage, "--storage")
    if objects is not None:
        wanted["storageObjects"] = None if objects == "default" else _number(objects)
    return wanted


def _of_requests(limits: str | None, user_limits: str | None) -> dict[str, Any] | None:
    """Return the limits of requests that the options give, or None if neither was used."""
    if limits is None and user_limits is None:
        return None
    found = parse_limits("--limits", limits or "")
    user = parse_limits("--user-limits", user_limits or "")
    return {**found, "user": user} if user else found


def shown_limits(limits: Mapping[str, Any]) -> str:
    """Return limits of requests as a text."""
    own = [f"{name}={value}" for name, value in limits.items() if name != "user"]
    user = [f"user.{name}={value}" for name, value in limits.get("user", {}).items()]
    return ",".join(own + user) or "those of all tenants"


async def _limit_requests(
    tenant: str, limits: Mapping[str, Any], data: Path | None, meta: str | None
) -> None:
    """Write limits of requests to the Tenant if the tenant controller manages it, which copies them; else to the record."""
    async with meta_client(str(embedded.kubeconfig_of(data, meta)) if data else meta) as meta_cluster:
        if await is_managed(meta_cluster, tenant):
            user = limits.get("user")
            changed: dict[str, Any] = {field: limits.get(field) for field in LIMIT_FIELDS}
            changed["user"] = {field: user.get(field) for field in LIMIT_FIELDS} if user else None
            await meta_cluster.patch(TENANTS, tenant, {"spec": {"limits": changed if limits else None}})
            return
    await embedded.change(tenant, {"limits": limits or None}, data, meta)


async def _name_template(tenant: str, template: str, data: Path | None, meta: str | None) -> None:
    async with meta_client(str(embedded.kubeconfig_of(data, meta)) if data else meta) as meta_cluster:
        if not await is_managed(meta_cluster, tenant):
            raise WrongInputError(
                f"--template: no Tenant object manages tenant {tenant}: set spec.controlPlane of its Tenant first"
            )
        if template:
            try:
                await meta_cluster.get(TENANT_TEMPLATES, template)
            except NotFound as error:
                raise WrongInputError(
                    f"--template {template!r}: there is no such TenantTemplate: create it, or name one that "
                    "'kubectl get tenanttemplates' lists"
                ) from error
        await meta_cluster.patch(TENANTS, tenant, {"spec": {"template": template or None}})


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise WrongInputError(f"--objects {text!r}: give a number, or default")
    return int(text)


async def _set(tenant: str, share: Mapping[str, Any], meta: str | None) -> None:
    async with meta_client(meta) as meta_cluster:
        vc = await require_tenant(meta_cluster, tenant)
        if cidr := share.get("serviceCidr"):
            await require_free(meta_cluster, vc.spec.tenant or vc.name, cidr)
        patch, lines = changes(vc, share)
        if "serviceCidr" in patch:
            # No Tenant has it: it is unique in the pool.
            own = {"serviceCidr": patch.pop("serviceCidr")}
            await meta_cluster.patch(VIRTUAL_CLUSTERS, vc.name, {"spec": own}, vc.namespace)
        if patch and await is_managed(meta_cluster, vc.name):
            # The tenant controller copies these fields to the VirtualCluster.
            await meta_cluster.patch(TENANTS, vc.name, {"spec": patch})
        elif patch:
            await meta_cluster.patch(VIRTUAL_CLUSTERS, vc.name, {"spec": patch}, vc.namespace)
            shared = {field: patch[field] for field in ("weight", "quota") if field in patch}
            if shared:
                # The VirtualCluster is authoritative; one that was created by hand may have no Tenant.
                with suppress(NotFound):
                    await meta_cluster.patch(TENANTS, vc.spec.tenant or vc.name, {"spec": shared})
        for line in lines or ("nothing changes",):
            say(f"tenant {tenant}: {line}")
