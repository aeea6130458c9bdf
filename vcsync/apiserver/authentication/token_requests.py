"""TokenRequests: issues tokens for ServiceAccounts, and publishes the keys that verify them (OpenID discovery).

Behaviour: kubernetes `pkg/registry/core/serviceaccount/storage/token.go`, `pkg/serviceaccount/openidmetadata.go`.
"""

import base64
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from vcsync.apimachinery.errors import FieldError, bad_request, conflict, invalid, not_found, wrong
from vcsync.apimachinery.resources import object_key
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.authentication import tokens
from vcsync.apiserver.authentication.tokens import Bound, Reference
from vcsync.apiserver.storage.interface import Store
from vcsync.apiserver.tenants.registry import Credentials, TenantRegistry
from vcsync.objects.times import unix_time_text

GROUP = "authentication.k8s.io"
KIND = "TokenRequest"
DEFAULT_SECONDS = 3600
MIN_SECONDS = 600
MAX_SECONDS = 1 << 32
WARN_ONLY_SECONDS = 3607
"""Lifetime that kubelets request for Pods whose clients may not know that tokens expire."""
EXTENDED_SECONDS = 365 * 24 * 3600
"""Actual lifetime of such a token, which is longer than it says (`--service-account-extend-token-expiration`)."""
_TOO_SHORT = "may not specify a duration less than 10 minutes"
_TOO_LONG = "may not specify a duration larger than 2^32 seconds"
WRONG_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"

BINDABLE = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
"""Kinds of the core group that a token can be bound to."""


Check = Callable[[Object], Awaitable[None]]
"""Validating admission of one request. Raises StatusError to refuse it."""


async def _allow(_: Object) -> None:
    """Allow every request."""


class TokenRequests:
    """Issues tokens.

    Args:
        store: Keeps the ServiceAccounts.
        tenants: All tenants with their keys.
        clock: Returns seconds since the epoch.
    """

    def __init__(self, store: Store, tenants: TenantRegistry, clock: Callable[[], float]) -> None:
        self._store = store
        self._tenants = tenants
        self._clock = clock

    async def create(
        self, tenant: str, namespace: str, name: str, body: Object, check: Check = _allow
    ) -> Object:
        """Answer a TokenRequest for a ServiceAccount.

        Args:
            tenant: The tenant.
            namespace: Namespace of the ServiceAccount.
            name: Name of the ServiceAccount.
            body: The TokenRequest.
            check: Called with the defaulted request, before the bound object is looked up.

        Returns:
            The TokenRequest with its token.

        Raises:
            StatusError: 400, 404, 409 or 422 as in kube-apiserver, or the error of `check`.
            StoreError: The store cannot be read.
        """
        metadata, spec = dict(body.get("metadata") or {}), dict(body.get("spec") or {})
        if metadata.get("name") not in (None, "", name):
            said = wrong(
                "metadata.name", metadata["name"], "must match the service account name if specified"
            )
            raise invalid(KIND, GROUP, name, [said])
        if metadata.get("namespace") not in (None, "", namespace):
            raise bad_request(WRONG_NAMESPACE)
        account = await self._require(tenant, "serviceaccounts", namespace, name)
        uid = account["metadata"]["uid"]
        if metadata.get("uid") not in (None, "", uid):
            why = f"the UID in the token request ({metadata['uid']}) does not match the UID of the service account ({uid})"
            raise conflict(KIND, GROUP, name, why)
        signer = await self._tenants.credentials(tenant)
        if signer is None or signer.record.signer is None or signer.signing_key is None:
            raise not_found("serviceaccounts", "", name)
        spec["audiences"] = spec.get("audiences") or [signer.record.signer.issuer]
        seconds = spec["expirationSeconds"] = _seconds(spec)
        _require_seconds(seconds)
        spec.setdefault("boundObjectRef", None)
        now = int(self._clock())
        metadata |= {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "creationTimestamp": unix_time_text(now),
        }
        asked = {"kind": KIND, "apiVersion": f"{GROUP}/v1", "metadata": metadata, "spec": spec}
        await check({**asked, "status": {"expirationTimestamp": None, "token": ""}})
        bound = await self._bound(tenant, namespace, name, spec["boundObjectRef"])
        own = set(spec["audiences"]) <= {signer.record.signer.issuer}
        extended = bound.pod is not None and seconds == WARN_ONLY_SECONDS and own
        token = tokens.signed(
            signer.signing_key,
            signer.record.signer.id,
            signer.record.signer.issuer,
            namespace,
            Reference(name, uid),
            bound,
            spec["audiences"],
            str(uuid.uuid4()),
            now,
            EXTENDED_SECONDS if extended else seconds,
            warn_after=seconds if extended else 0,
        )
        return {
            **asked,
            "status": {"token": token, "expirationTimestamp": unix_time_text(now + seconds)},
        }

    async def _bound(self, tenant: str, namespace: str, account: str, reference: Object | None) -> Bound:
        if reference is None:
            return Bound()
        kind, version = reference.get("kind") or "", reference.get("apiVersion") or ""
        plural = BINDABLE.get(kind)
        if plural is None or "/" in version:
            raise bad_request(f"cannot bind token to object of type {_gvk(version, kind)}")
        name = reference.get("name") or ""
        found = await self._require(tenant, plural, "" if kind == "Node" else namespace, name)
        node = None
        if kind == "Pod":
            pod = found.get("spec") or {}
            if pod.get("serviceAccountName") != account:
                raise bad_request(
                    f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
                )
            node = await self._node(tenant, pod.get("nodeName") or "")
        uid = found["metadata"]["uid"]
        if reference.get("uid") not in (None, "", uid):
            raise conflict(
                kind,
                "",
                name,
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        to = Reference(name, uid)
        return {"Pod": Bound(pod=to, node=node), "Secret": Bound(secret=to), "Node": Bound(node=to)}[kind]

    async def _node(self, tenant: str, name: str) -> Reference | None:
        """Return the Node of a Pod. One that does not exist has a name and no UID."""
        if not name:
            return None
        found = await self._get(tenant, "nodes", "", name)
        return Reference(name, found["metadata"]["uid"] if found else "")

    async def _require(self, tenant: str, plural: str, namespace: str, name: str) -> Object:
        found = await self._get(tenant, plural, namespace, name)
        if found is None:
            raise not_found(plural, "", name)
        return found

    async def _get(self, tenant: str, plural: str, namespace: str, name: str) -> Object | None:
        if "/" in name or not name:
            return None
        record, _ = await self._store.get(object_key(tenant, "", plural, namespace, name))
        found: Object | None = msgspec.json.decode(record.value) if record else None
        return found

    async def openid_configuration(self, tenant: str) -> Object:
        """Return the discovery document of a tenant's issuer.

        Raises:
            StatusError: 404, the tenant does not exist.
        """
        signer = (await self._credentials(tenant)).record.signer
        issuer = signer.issuer if signer else ""
        return {
            "issuer": issuer,
            "jwks_uri": f"{issuer}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [tokens.ALGORITHM],
        }

    async def jwks(self, tenant: str) -> Object:
        """Return the keys that verify a tenant's tokens.

        Raises:
            StatusError: 404, the tenant does not exist.
        """
        found = await self._credentials(tenant)
        if found.verification_key is None or found.record.signer is None:
            return {"keys": []}
        return {"keys": [_jwk(found.verification_key, found.record.signer.id)]}

    async def _credentials(self, tenant: str) -> Credentials:
        found = await self._tenants.credentials(tenant)
        if found is None:
            raise not_found("tenants", "", tenant)
        return found


def _seconds(spec: Object) -> int:
    value = spec.get("expirationSeconds")
    return DEFAULT_SECONDS if value is None else int(value)


def _require_seconds(seconds: int) -> None:
    found: list[FieldError] = []
    if seconds < MIN_SECONDS:
        found.append(wrong("spec.expirationSeconds", seconds, _TOO_SHORT))
    if seconds > MAX_SECONDS:
        found.append(wrong("spec.expirationSeconds", seconds, _TOO_LONG))
    if found:
        raise invalid(KIND, GROUP, "", found)


def _gvk(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"


def _jwk(key: ec.EllipticCurvePublicKey, identifier: str) -> dict[str, Any]:
    numbers = key.public_numbers()
    x, y = (
        base64.urlsafe_b64encode(value.to_bytes(32, "big")).rstrip(b"=").decode()
        for value in (numbers.x, numbers.y)
    )
    return {
        "use": "sig",
        "kty": "EC",
        "kid": identifier,
        "crv": "P-256",
        "alg": tokens.ALGORITHM,
        "x": x,
        "y": y,
    }
