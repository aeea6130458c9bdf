"""`vcsync tenant renew` and `vcsync super renew`: new credentials for the roles, without a new registration."""

import asyncio
from pathlib import Path

import click

from vcsync.api import names
from vcsync.api.credentials import super_credentials
from vcsync.api.objects import cluster_key
from vcsync.cli.command.common import admin_client, kubeconfig_option, meta_client, meta_option, note
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.cli.registration import placement_webhook
from vcsync.registration import accounts, manifests
from vcsync.registration.cluster_identity import cluster_uid
from vcsync.registration.kubeconfigs import Admin, read_admin
from vcsync.registration.registered import check_leads_there, require_super_cluster, require_tenant
from vcsync.tenancy.proof import recorded_uid

NOTHING_RENEWED = "no credentials were renewed"

revoke_option = click.option(
    "--revoke",
    is_flag=True,
    help="First delete the Secrets with the tokens, which invalidates the tokens immediately.",
)


@click.command(
    name="renew",
    epilog=example(
        "vcsync tenant renew acme --kubeconfig acme.kubeconfig",
        "vcsync tenant renew acme --kubeconfig acme.kubeconfig --revoke",
        "vcsync tenant renew acme --kubeconfig acme.kubeconfig --placement-webhook pods.pool.example:9443",
        "vcsync tenant renew acme --kubeconfig acme.kubeconfig --no-placement-webhook",
    ),
)
@click.argument("tenant", metavar="NAME")
@kubeconfig_option
@revoke_option
@placement_webhook.placement_webhook_option
@click.option("--no-placement-webhook", "unplace", is_flag=True, help="Remove the webhook and its token.")
@meta_option
def renew_tenant(
    *,
    tenant: str,
    kubeconfig: Path,
    revoke: bool,
    placement: str | None,
    unplace: bool,
    meta: str | None,
) -> None:
    """Give the roles that serve the tenant NAME new credentials, before theirs expire or after they were refused.

    Missing objects of the roles in its control plane are created again. The roles use the new credentials within a
    minute. A placement webhook gets a new token, and keeps its address unless --placement-webhook gives another one.
    For embedded control planes there is also 'vcsync tenant rotate'.
    """
    if placement is not None and unplace:
        raise WrongInputError("--placement-webhook and --no-placement-webhook: give one of them")
    address = "" if unplace else placement_webhook.parse_placement(placement)
    asyncio.run(_renew_tenant(tenant, read_admin(kubeconfig), revoke, address, meta))


async def _renew_tenant(
    tenant: str, admin: Admin, revoke: bool, placement: str | None, meta: str | None
) -> None:
    """Renew the credentials.

    Args:
        tenant: name of the tenant.
        admin: the administrator's kubeconfig.
        revoke: whether to invalidate the former ones first.
        placement: HOST:PORT for the placement webhook; empty: remove it; None: as it is.
        meta: path of the meta cluster's kubeconfig.
    """
    async with meta_client(meta) as meta_cluster, admin_client(admin.path, tenant) as control_plane:
        vc = await require_tenant(meta_cluster, tenant)
        recorded = recorded_uid(vc)
        if not recorded:
            raise FailedError(
                f"no control plane of tenant {tenant} is known yet; 'vcsync tenant add {tenant}' registers one"
            )
        if await cluster_uid(control_plane) != recorded:
            raise FailedError(
                f"the kubeconfig leads to a control plane that is not tenant {tenant}'s; {NOTHING_RENEWED} "
                f"('vcsync tenant accept {tenant}' accepts it if the control plane was replaced on purpose)"
            )
        if revoke:
            await accounts.revoke(control_plane, names.ROLES)
        root = cluster_key(vc)
        secrets = await accounts.tenant_secrets(control_plane, tenant, root, admin.cluster, note)
        await manifests.apply(meta_cluster, secrets)
        if placement is None:
            placement = await placement_webhook.installed(meta_cluster, root)
        elif not placement:
            await placement_webhook.uninstall(meta_cluster, control_plane, root)
        if placement:
            await placement_webhook.install(meta_cluster, control_plane, root, placement)
    say(f"the roles have new credentials for tenant {tenant} and use them within a minute")


@click.command(name="renew", epilog=example("vcsync super renew r1 --kubeconfig r1.kubeconfig"))
@click.argument("super_id", metavar="ID")
@kubeconfig_option
@revoke_option
@meta_option
def renew_super(super_id: str, kubeconfig: Path, revoke: bool, meta: str | None) -> None:
    """Give the roles new credentials for the super cluster ID, before theirs expire or after they were refused.

    Their missing objects there are created again. The syncer uses the new credentials within a minute, and so do control
    planes for logs, exec, attach and port-forward.
    """
    asyncio.run(_renew_super(super_id, read_admin(kubeconfig), revoke, meta))


async def _renew_super(super_id: str, admin: Admin, revoke: bool, meta: str | None) -> None:
    async with meta_client(meta) as meta_cluster, admin_client(admin.path, super_id) as there:
        super_cluster = await require_super_cluster(meta_cluster, super_id)
        kept = super_credentials(super_cluster)
        own = (names.SYSTEM_NAMESPACE, names.super_secret(super_id), names.KUBECONFIG_KEY)
        if (kept.namespace, kept.name, kept.key) != own:
            raise FailedError(
                f"super cluster {super_id} has its kubeconfig in Secret {kept.namespace}/{kept.name}, which spec."
                f"kubeconfigSecretRef names; whoever made the Secret has to renew it; {NOTHING_RENEWED}"
            )
        meta_uid = await cluster_uid(meta_cluster)
        await check_leads_there(there, super_cluster, meta_uid, NOTHING_RENEWED)
        if revoke:
            await accounts.revoke(there, (names.ROLE_SYNCER, names.ROLE_STREAMS))
        made = await accounts.super_kubeconfigs(there, super_id, admin.cluster, note)
        await accounts.check_usable(made.syncer, super_id)
        await accounts.store_super_credentials(meta_cluster, super_id, made)
    say(f"the roles have new credentials for super cluster {super_id} and use them within a minute")
