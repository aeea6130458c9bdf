"""Whether what a ServiceAccount token depends on still exists, asked of the store at every use.

Behaviour: kubernetes `pkg/serviceaccount/{claims,legacy}.go`.
"""

import base64
import binascii
import hmac
from datetime import datetime

import msgspec

from vcsync.controlplane.identity.tokens import LEEWAY, Claims, Reference, TokenError
from vcsync.controlplane.resources import object_key
from vcsync.controlplane.store.interface import Store

INVALIDATED = "service account token has been invalidated"


class _Metadata(msgspec.Struct):
    uid: str
    deletionTimestamp: str | None = None  # noqa: N815


class Found(msgspec.Struct):
    """As much of a stored object as counts here."""

    metadata: _Metadata
    data: dict[str, str | None] | msgspec.UnsetType = msgspec.UNSET


class _Bare(msgspec.Struct):
    metadata: _Metadata


_decoder = msgspec.json.Decoder(_Bare)
_secret_decoder = msgspec.json.Decoder(Found)


class BoundObjects:
    """Looks objects up that tokens refer to."""

    def __init__(self, store: Store) -> None:
        """Take the store that holds them."""
        self._store = store

    async def check(self, tenant: str, claims: Claims, token: str, now: float) -> None:
        """Make sure that a token's ServiceAccount, and what it is bound to, are still the same and there.

        Raises:
            TokenError: they are not.
            StoreError: the store cannot be read.
        """
        namespace, account = claims.namespace, claims.account
        found = await self._get(tenant, "serviceaccounts", namespace, account.name)
        if found is None:
            raise TokenError(f'serviceaccounts "{account.name}" not found')
        if found.metadata.uid != account.uid:
            raise TokenError(
                f"service account UID ({found.metadata.uid}) does not match claim ({account.uid})"
            )
        if _deleted(found.metadata, now):
            raise TokenError(f"service account {namespace}/{account.name} has been deleted")
        if claims.legacy and claims.secret:
            await self._check_content(tenant, namespace, claims.secret.name, token, now)
        elif claims.secret:
            await self._check(tenant, "secrets", namespace, claims.secret, now)
        if claims.pod:
            await self._check(tenant, "pods", namespace, claims.pod, now)
        elif claims.node:
            await self._check(tenant, "nodes", "", claims.node, now)

    async def _check(self, tenant: str, plural: str, namespace: str, bound: Reference, now: float) -> None:
        found = await self._get(tenant, plural, namespace, bound.name)
        if found is None or _deleted(found.metadata, now):
            raise TokenError(INVALIDATED)
        if found.metadata.uid != bound.uid:
            kind = plural.removesuffix("s")
            raise TokenError(
                f"{kind} UID ({found.metadata.uid}) does not match service account {kind} ref claim ({bound.uid})"
            )

    async def _check_content(self, tenant: str, namespace: str, name: str, token: str, now: float) -> None:
        record, _ = await self._store.get(object_key(tenant, "", "secrets", namespace, name))
        found = _secret_decoder.decode(record.value) if record else None
        if found is None or _deleted(found.metadata, now) or not found.data:
            raise TokenError(INVALIDATED)
        try:
            content = base64.b64decode(found.data.get("token") or "")
        except binascii.Error:
            content = b""
        if not hmac.compare_digest(content, token.encode()):
            raise TokenError("service account token does not match server's copy")

    async def _get(self, tenant: str, plural: str, namespace: str, name: str) -> _Bare | None:
        record, _ = await self._store.get(object_key(tenant, "", plural, namespace, name))
        return _decoder.decode(record.value) if record else None


def _deleted(metadata: _Metadata, now: float) -> bool:
    """Tell whether an object has been on its way out for longer than clocks may differ."""
    if not metadata.deletionTimestamp:
        return False
    return datetime.fromisoformat(metadata.deletionTimestamp).timestamp() < now - LEEWAY
