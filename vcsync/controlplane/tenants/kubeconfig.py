"""Kubeconfigs for users of tenants, and the files that controllers outside need. Pure."""

import base64
from collections.abc import Mapping

import yaml

from vcsync.controlplane.identity.bootstrap import TENANT_ADMINS
from vcsync.controlplane.identity.caller import MASTERS, SYSTEM
from vcsync.controlplane.tenants.pki import Pair, public_pem
from vcsync.controlplane.tenants.records import TenantRecord

ADMIN = "admin"


def default_groups(tenant: str, user: str) -> tuple[str, ...]:
    """Return the groups of a user whose groups nobody named: those of an administrator, or none."""
    if user != ADMIN:
        return ()
    return (MASTERS,) if tenant == SYSTEM else (TENANT_ADMINS,)


def server_url(url: str, tenant: str) -> str:
    """Return the URL of a tenant's API."""
    return url if tenant == SYSTEM else f"{url}/tenants/{tenant}"


def kubeconfig(*, tenant: str, url: str, server_authority: str, user: str, pair: Pair) -> bytes:
    """Build a kubeconfig that needs nothing beside it."""

    def inline(pem: str) -> str:
        return base64.b64encode(pem.encode()).decode()

    cluster = {"server": server_url(url, tenant), "certificate-authority-data": inline(server_authority)}
    credentials = {
        "client-certificate-data": inline(pair.certificate),
        "client-key-data": inline(pair.key),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": tenant, "cluster": cluster}],
        "users": [{"name": f"{user}@{tenant}", "user": credentials}],
        "contexts": [{"name": tenant, "context": {"cluster": tenant, "user": f"{user}@{tenant}"}}],
        "current-context": tenant,
    }
    return yaml.safe_dump(document, sort_keys=False).encode()


def controller_files(record: TenantRecord, server_authority: str) -> Mapping[str, str]:
    """Return the files that a kube-controller-manager of the tenant is started with, by name."""
    if record.authority is None or record.signer is None:
        raise ValueError("the tenant has no keys")
    return {
        "ca.crt": record.authority.certificate,
        "ca.key": record.authority.key,
        "sa.key": record.signer.key,
        "sa.pub": public_pem(record.signer),
        "server-ca.crt": server_authority,
    }
