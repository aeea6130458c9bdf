"""The placement webhook of tenants with control planes of their own: its token, its certificate, its configuration."""

import base64
import secrets
import time
from collections.abc import Mapping
from datetime import timedelta

import click
from cryptography import x509

from vcsync.api import names
from vcsync.api.placement_webhook import placement_webhook
from vcsync.api.resources import MUTATING_WEBHOOK_CONFIGURATIONS
from vcsync.apiserver.tenants.pki import issue_serving, new_authority
from vcsync.apiserver.tenants.records import Authority
from vcsync.cli.command.common import parse_endpoint
from vcsync.kube.client import Client
from vcsync.kube.resources import SECRETS
from vcsync.registration import manifests
from vcsync.tenancy.secrets import read_secret

OPTION = "--placement-webhook"
CERTIFICATE, KEY, IDENTITY = "tls.crt", "tls.key", "id"
LIFE = timedelta(days=3650)
"""Life of the certificate. Tenants trust its authority, which lives as long."""
TOKEN_BYTES = 32

placement_webhook_option = click.option(
    OPTION,
    "placement",
    metavar="HOST:PORT",
    help="Let the tenant's control plane ask the Pod scheduler there about new Pods, so that they are created with their "
    "super cluster. The Pod scheduler needs --placement-webhook-listen.",
)


def parse_placement(text: str | None) -> str | None:
    """Return the HOST:PORT of the option in the form of a URL.

    Raises:
        WrongInputError: it is malformed.
    """
    if text is None:
        return None
    host, port = parse_endpoint(OPTION, text)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def install(meta_cluster: Client, control_plane: Client, root: str, address: str) -> None:
    """Let a tenant's control plane ask the Pod scheduler. A former token ends within a minute.

    Args:
        meta_cluster: client of the meta cluster.
        control_plane: client of the tenant's control plane, as its administrator.
        root: the tenant's root namespace.
        address: HOST:PORT of the Pod scheduler.

    Raises:
        KubeError: a cluster refused a write. Pods are created without an answer until it is repeated.
    """
    token = secrets.token_urlsafe(TOKEN_BYTES)
    authority = await _serve_as(meta_cluster, parse_endpoint(OPTION, address)[0])
    kept = {names.PLACEMENT_TOKEN_KEY: token, names.PLACEMENT_ADDRESS_KEY: address}
    await manifests.apply(meta_cluster, [_secret(root, names.PLACEMENT_SECRET, kept)])
    await manifests.apply(control_plane, [placement_webhook(address, token, authority.certificate.encode())])


async def installed(meta_cluster: Client, root: str) -> str | None:
    """Return the HOST:PORT that a tenant's control plane asks; None if it asks nobody."""
    found = await read_secret(meta_cluster, names.PLACEMENT_SECRET, root)
    return None if found is None else found.get(names.PLACEMENT_ADDRESS_KEY, b"").decode() or None


async def uninstall(meta_cluster: Client, control_plane: Client, root: str) -> None:
    """Remove the webhook from a tenant's control plane, and its token."""
    await remove_from(control_plane)
    await manifests.delete_if_there(meta_cluster, SECRETS, names.PLACEMENT_SECRET, root)


async def remove_from(control_plane: Client) -> None:
    """Remove the webhook from a tenant's control plane."""
    await manifests.delete_if_there(control_plane, MUTATING_WEBHOOK_CONFIGURATIONS, names.PLACEMENT_WEBHOOK)


async def _serve_as(meta_cluster: Client, host: str) -> Authority:
    """Make the Pod scheduler's certificate valid for a host, besides those that it has. Return its authority."""
    kept = await read_secret(meta_cluster, names.PLACEMENT_CA_SECRET, names.SYSTEM_NAMESPACE) or {}
    serving = await read_secret(meta_cluster, names.PLACEMENT_TLS_SECRET, names.SYSTEM_NAMESPACE) or {}
    now = time.time()
    if all(kept.get(key) for key in (CERTIFICATE, KEY, IDENTITY)):
        authority = Authority(*(kept[key].decode() for key in (CERTIFICATE, KEY, IDENTITY)))
        hosts = hosts_of(serving.get(CERTIFICATE, b""))
    else:
        authority, hosts = new_authority("vcsync-placement-webhook", now), []
        parts = {CERTIFICATE: authority.certificate, KEY: authority.key, IDENTITY: authority.id}
        await manifests.apply(
            meta_cluster, [_secret(names.SYSTEM_NAMESPACE, names.PLACEMENT_CA_SECRET, parts)]
        )
    if host not in hosts:
        pair = issue_serving(authority, [*hosts, host], now, LIFE)
        parts = {CERTIFICATE: pair.certificate, KEY: pair.key}
        await manifests.apply(
            meta_cluster, [_secret(names.SYSTEM_NAMESPACE, names.PLACEMENT_TLS_SECRET, parts)]
        )
    return authority


def hosts_of(certificate: bytes) -> list[str]:
    """Return the host names and addresses for which a certificate (PEM) is valid; none if it is empty."""
    if not certificate:
        return []
    found = x509.load_pem_x509_certificate(certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    addresses = [str(each) for each in found.value.get_values_for_type(x509.IPAddress)]
    return [*found.value.get_values_for_type(x509.DNSName), *addresses]


def _secret(namespace: str, name: str, parts: Mapping[str, str]) -> dict[str, object]:
    """Return a Secret with several entries."""
    data = {key: base64.b64encode(text.encode()).decode() for key, text in parts.items()}
    return {**manifests.secret(namespace, name, "", b""), "data": data}
