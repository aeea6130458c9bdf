"""Checks, at every use, that the objects that a ServiceAccount token is bound to still exist.

Behaviour: kubernetes `pkg/serviceaccount/{claims,legacy}.go`.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from vcsync.apimachinery.resources import object_key
from vcsync.apiserver.authentication.tokens import LEEWAY, Claims, Reference, TokenError
from vcsync.apiserver.storage.interface import Compare, Put, Record, Store

INVALIDATED = "service account token has been invalidated"
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
LAST_USED = "kubernetes.io/legacy-token-last-used"
"""Labels by which kube-controller-manager finds unused token Secrets, which it marks and later deletes."""
DAY_SECONDS = 24 * 3600.0


class _Metadata(msgspec.Struct):
    uid: str
    deletionTimestamp: str | None = None  # noqa: N815
    labels: dict[str, str | None] | None = None


class Found(msgspec.Struct):
    """The parts of a stored object that are checked."""

    metadata: _Metadata
    data: dict[str, str | None] | msgspec.UnsetType = msgspec.UNSET


class _Bare(msgspec.Struct):
    metadata: _Metadata


_decoder = msgspec.json.Decoder(_Bare)
_secret_decoder = msgspec.json.Decoder(Found)


class BoundObjects:
    """Looks up the objects that tokens are bound to.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def check(self, tenant: str, claims: Claims, token: str, now: float) -> None:
        """Return if the ServiceAccount of a token, and the object that it is bound to, exist with the same UID.

        Raises:
            TokenError: They do not.
            StoreError: The store cannot be read.
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
        key = object_key(tenant, "", "secrets", namespace, name)
        record, _ = await self._store.get(key)
        found = _secret_decoder.decode(record.value) if record else None
        if record is None or found is None or _deleted(found.metadata, now) or not found.data:
            raise TokenError(INVALIDATED)
        try:
            content = base64.b64decode(found.data.get("token") or "")
        except binascii.Error:
            content = b""
        if not hmac.compare_digest(content, token.encode()):
            raise TokenError("service account token does not match server's copy")
        labels = found.metadata.labels or {}
        await self._mark_used(key, record, labels, now)
        if labels.get(INVALID_SINCE):
            raise TokenError(f"the token in secret {namespace}/{name} has been marked invalid")

    async def _mark_used(
        self, key: str, record: Record, labels: Mapping[str, str | None], now: float
    ) -> None:
        """Record the day in a Secret whose token is used, once a day. A concurrent write of the Secret takes precedence."""
        days = [datetime.fromtimestamp(now + each, UTC).strftime("%Y-%m-%d") for each in (0, DAY_SECONDS)]
        if labels.get(LAST_USED) in days:
            return
        body = msgspec.json.decode(record.value)
        body["metadata"]["labels"] = {**labels, LAST_USED: days[0]}
        await self._store.txn([Compare(key, record.revision)], [Put(key, msgspec.json.encode(body))])

    async def _get(self, tenant: str, plural: str, namespace: str, name: str) -> _Bare | None:
        record, _ = await self._store.get(object_key(tenant, "", plural, namespace, name))
        return _decoder.decode(record.value) if record else None


def _deleted(metadata: _Metadata, now: float) -> bool:
    """Tell whether an object has been marked as deleted for longer than clocks may differ."""
    if not metadata.deletionTimestamp:
        return False
    return datetime.fromisoformat(metadata.deletionTimestamp).timestamp() < now - LEEWAY
