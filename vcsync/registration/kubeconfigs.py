"""Kubeconfigs for roles: the server of an administrator's kubeconfig, and a ServiceAccount's token as the user."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from vcsync.kube import kubeconfig
from vcsync.kube.connection import Files
from vcsync.kube.errors import CredentialsError
from vcsync.kube.kubeconfig import Cluster


@dataclass(frozen=True)
class Admin:
    """An administrator's kubeconfig, as the user gave it."""

    path: Path
    content: bytes
    cluster: Cluster
    """Address of its cluster, as it is reached from anywhere, and the CA."""


def read_admin(path: Path, *, as_given: bool = False) -> Admin:
    """Read an administrator's kubeconfig.

    Args:
        path: The file.
        as_given: Whether exactly this content will be stored.

    Raises:
        CredentialsError: It cannot be read, is not a usable kubeconfig, or cannot be stored.
    """
    path = path.absolute()
    content = Files(path.parent).read(str(path), "kubeconfig")
    with kubeconfig.named(path):
        if as_given:
            check_self_contained(content)
        return Admin(path, content, cluster_of(content, path.parent))


def cluster_of(data: bytes, directory: Path) -> Cluster:
    """Return how to reach the cluster of a kubeconfig's current context, with the CA inline instead of in a file.

    Args:
        data: The kubeconfig's content.
        directory: Its folder; relative paths in it start there.

    Raises:
        CredentialsError: It is not a usable kubeconfig, or the CA's file cannot be read.
    """
    cluster = kubeconfig.parse(data).cluster
    kubeconfig.server_url(cluster.server)
    if cluster.certificate_authority and not cluster.certificate_authority_data:
        authority = Files(directory).read(
            cluster.certificate_authority, "field cluster.certificate-authority"
        )
        data_field = base64.b64encode(authority).decode()
        cluster = msgspec.structs.replace(cluster, certificate_authority_data=data_field)
    return msgspec.structs.replace(cluster, certificate_authority="")


def check_self_contained(data: bytes) -> None:
    """Refuse a kubeconfig that names files or programs, which do not exist where it is read from a Secret.

    Raises:
        CredentialsError: It names one; the text names the field.
    """
    field = outside_field(data)
    if field:
        raise CredentialsError(
            f"kubeconfig: field {field} works on this machine only, so it cannot be stored --as-given; "
            "inline it (kubectl config view --raw --flatten) or leave out --as-given"
        )


def outside_field(data: bytes) -> str:
    """Return the first field of a kubeconfig that names a file or a program; empty if none does.

    Raises:
        CredentialsError: It is not a usable kubeconfig.
    """
    parsed = kubeconfig.parse(data)
    named = {
        "cluster.certificate-authority": parsed.cluster.certificate_authority,
        "user.client-certificate": parsed.user.client_certificate,
        "user.client-key": parsed.user.client_key,
        "user.tokenFile": parsed.user.token_file,
        "user.exec": parsed.user.exec_,
        "user.auth-provider": parsed.user.auth_provider,
    }
    return next((field for field, value in named.items() if value), "")


def with_token(
    cluster: Cluster, *, name: str, user: str, token: str, acting_as: Mapping[str, Any] | None = None
) -> bytes:
    """Build a self-contained kubeconfig: one cluster, one user with a bearer token.

    Args:
        cluster: How to reach the cluster.
        name: Name of the cluster.
        user: Name of the user in the kubeconfig.
        token: The token.
        acting_as: Fields of the user that say whom it impersonates.
    """
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": _without_defaults(cluster)}],
        "users": [{"name": user, "user": {"token": token, **(acting_as or {})}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }
    return yaml.safe_dump(document, sort_keys=False).encode()


def _without_defaults(cluster: Cluster) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(msgspec.json.encode(cluster))
    return {field: value for field, value in plain.items() if value}
