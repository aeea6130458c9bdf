"""Kubeconfigs for users of tenants, and the key files of external controllers. Pure."""

import base64
from collections.abc import Mapping

import yaml

from vcsync.apiserver.authorization.bootstrap import TENANT_ADMINS
from vcsync.apiserver.request.caller import MASTERS, SYSTEM
from vcsync.apiserver.tenants.pki import Pair, public_pem
from vcsync.apiserver.tenants.records import TenantRecord

ADMIN = "admin"
EXTENSION = "vcsync"
"""Name of the extension with which our kubeconfigs name their tenant. kubectl keeps extensions when it changes a file."""
_MARKS = (b"name: " + EXTENSION.encode() + b"\n", b"/tenants/")
"""Parts of our kubeconfigs: the extension, and the path of the server in those of earlier versions."""


def default_groups(tenant: str, user: str) -> tuple[str, ...]:
    """Return the default groups of a user: those of an administrator, or none."""
    if user != ADMIN:
        return ()
    return (MASTERS,) if tenant == SYSTEM else (TENANT_ADMINS,)


def kubeconfig(*, tenant: str, url: str, server_authority: str, user: str, pair: Pair | None) -> bytes:
    """Return a kubeconfig that contains all certificates and keys. Without a pair, its user has no credential yet.

    The server's URL has no path, because the client certificate already names the tenant: `kubectl proxy` and tools that
    build URLs themselves ignore or drop a path. An extension of the context names the tenant; see `names_tenant`.
    """

    def inline(pem: str) -> str:
        return base64.b64encode(pem.encode()).decode()

    cluster = {"server": url, "certificate-authority-data": inline(server_authority)}
    credentials = {}
    if pair is not None:
        credentials = {
            "client-certificate-data": inline(pair.certificate),
            "client-key-data": inline(pair.key),
        }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": tenant, "cluster": cluster}],
        "users": [{"name": f"{user}@{tenant}", "user": credentials}],
        "contexts": [
            {
                "name": tenant,
                "context": {
                    "cluster": tenant,
                    "user": f"{user}@{tenant}",
                    "extensions": [{"name": EXTENSION, "extension": {"tenant": tenant}}],
                },
            }
        ],
        "current-context": tenant,
    }
    return yaml.safe_dump(document, sort_keys=False).encode()


def names_tenant(content: bytes) -> bool:
    """Tell whether a kubeconfig was issued for a tenant of an embedded control plane."""
    return any(mark in content for mark in _MARKS)


def tenant_of(content: bytes) -> str | None:
    """Return the tenant that the current context of a kubeconfig names, or None if it names none."""
    try:
        document = yaml.safe_load(content)
        context = next(each for each in document["contexts"] if each["name"] == document["current-context"])
        extensions = context["context"].get("extensions") or ()
        tenant = next(each["extension"]["tenant"] for each in extensions if each["name"] == EXTENSION)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, StopIteration):
        return None
    return tenant if isinstance(tenant, str) else None


def controller_files(record: TenantRecord, server_authority: str) -> Mapping[str, str]:
    """Return the key files for a kube-controller-manager of the tenant, by name.

    Raises:
        ValueError: The tenant has no keys.
    """
    if record.authority is None or record.signer is None:
        raise ValueError("the tenant has no keys")
    return {
        "ca.crt": record.authority.certificate,
        "ca.key": record.authority.key,
        "sa.key": record.signer.key,
        "sa.pub": public_pem(record.signer),
        "server-ca.crt": server_authority,
    }
