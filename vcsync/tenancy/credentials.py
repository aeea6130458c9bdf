"""Reads the kubeconfig with which a role reaches a tenant's control plane from the meta cluster."""

import base64
import binascii

from msgspec import Struct

from vcsync.api.credentials import credentials_lookup, inline_kubeconfig
from vcsync.api.objects import VirtualCluster
from vcsync.api.specs import SecretRef
from vcsync.kube.client import Client
from vcsync.kube.errors import CredentialsError, NotFound
from vcsync.kube.resources import SECRETS
from vcsync.objects.envelope import decode


class _SecretData(Struct):
    data: dict[str, str] | None = None


class CredentialsReader:
    """Reads kubeconfigs of tenants for one role. Nothing is cached: every call reads the Secrets.

    Args:
        meta: client of the meta cluster.
        role: name of the role.
    """

    def __init__(self, meta: Client, role: str) -> None:
        self._meta = meta
        self._role = role

    async def read(self, virtual_cluster: VirtualCluster) -> bytes:
        """Return the tenant's kubeconfig: the role's own, else the first one in VirtualCluster's order.

        Raises:
            CredentialsError: there is none, or its Secret is malformed. The text names every Secret that was read.
            InvalidObject, InvalidName: the VirtualCluster is malformed.
            KubeError: the meta cluster did not answer.
        """
        own, *others = credentials_lookup(virtual_cluster, self._role)
        found = await self._secret(own)
        if found is None:
            found = inline_kubeconfig(virtual_cluster)
        for reference in others:
            if found is None:
                found = await self._secret(reference)
        if found is None:
            places = ", ".join(f"{place.namespace}/{place.name}" for place in (own, *others))
            raise CredentialsError(
                f"VirtualCluster {virtual_cluster.namespace}/{virtual_cluster.name} has no kubeconfig: "
                f"create one of the Secrets {places} in the meta cluster"
            )
        return found

    async def _secret(self, reference: SecretRef) -> bytes | None:
        """Return one key of a Secret; None if the Secret does not exist."""
        try:
            secret = await self._meta.get(SECRETS, reference.name, reference.namespace)
        except NotFound:
            return None
        where = f"Secret {reference.namespace}/{reference.name}"
        text = (decode(secret.rest, _SecretData).data or {}).get(reference.key)
        if not text:
            raise CredentialsError(f"{where} has no key {reference.key!r}: put the kubeconfig there")
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            raise CredentialsError(f"{where}, key {reference.key!r}: not base64; replace it") from None
