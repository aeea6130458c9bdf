"""Signs with the keys of tenants on behalf of the controllers: approved certificates, and tokens for Secrets.

The keys stay in this process. A request only names an object, and the store decides what is signed: a
CertificateSigningRequest must be approved, and a Secret must name an existing ServiceAccount. A caller therefore gains
nothing that the API does not grant.
"""

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from vcsync.apimachinery.errors import bad_request, conflict, not_found
from vcsync.apimachinery.resources import object_key
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.authentication import tokens
from vcsync.apiserver.authentication.revocations import Revocations
from vcsync.apiserver.authentication.tokens import Reference
from vcsync.apiserver.authorization.protected_groups import not_signed
from vcsync.apiserver.operator.certificates import sign
from vcsync.apiserver.storage.interface import Store
from vcsync.apiserver.tenants.registry import Credentials, TenantRegistry
from vcsync.objects.signing_requests import SIGNERS, RequestError, common_name, parse, refusal

GROUP, REQUESTS = "certificates.k8s.io", "certificatesigningrequests"
TOKEN_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 - a Secret's type
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"


class Issued(msgspec.Struct, omit_defaults=True):
    """The result of a CertificateSigningRequest: a certificate in PEM form, or the reason why there is none."""

    certificate: str = ""
    failure: str = ""


class Issuer:
    """Signs for controllers.

    Args:
        store: Keeps the objects.
        registry: Has the keys of tenants.
        revocations: Revoked certificates.
        clock: Returns seconds since the epoch.
    """

    def __init__(
        self, store: Store, registry: TenantRegistry, revocations: Revocations, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._registry = registry
        self._revocations = revocations
        self._clock = clock

    async def certificate(self, tenant: str, name: str, uid: str) -> Issued:
        """Sign the certificate of an approved CertificateSigningRequest.

        Raises:
            StatusError: 404, the tenant or the request does not exist; 409, the request has another UID, or is not
                approved, or is completed; 400, the signer is not one of vcsync's.
            StoreError: The store cannot be read.
        """
        credentials = await self._credentials(tenant)
        found = await self._require(tenant, GROUP, REQUESTS, "", name, uid)
        spec, status = found.get("spec") or {}, found.get("status") or {}
        signer = spec.get("signerName") or ""
        if signer not in SIGNERS:
            raise bad_request(f"signer {signer!r} is none of ours")
        conditions = _true_conditions(status)
        if (
            "Approved" not in conditions
            or not conditions.isdisjoint(("Denied", "Failed"))
            or status.get("certificate")
        ):
            raise conflict(REQUESTS, GROUP, name, "it is not to be signed")
        authority = credentials.record.authority
        if authority is None:
            raise not_found("tenants", "", tenant)
        usages: Collection[str] = spec.get("usages") or ()
        try:
            request = parse(spec.get("request") or "")
            refused = refusal(signer, request, usages)
            named = not_signed(signer, request)
            if named is not None:
                # Admission refuses such requests, but one from an earlier version may exist.
                refused = f"use of {signer} signer with {named} is not allowed"
            if refused:
                return Issued(failure=refused)
            after = self._revocations.issue_after(tenant, common_name(request))
            seconds = spec.get("expirationSeconds")
            return Issued(sign(authority, request, usages, seconds, self._clock(), after=after))
        except (RequestError, ValueError) as error:
            return Issued(failure=str(error))

    async def token(self, tenant: str, namespace: str, name: str, uid: str) -> str:
        """Return a token that does not expire for the ServiceAccount that a Secret names.

        Raises:
            StatusError: 404, the tenant, Secret or ServiceAccount does not exist; 409, it has another UID; 400, the Secret
                is not a token Secret.
            StoreError: The store cannot be read.
        """
        credentials = await self._credentials(tenant)
        signer, key = credentials.record.signer, credentials.signing_key
        if signer is None or key is None:
            raise not_found("tenants", "", tenant)
        secret = await self._require(tenant, "", "secrets", namespace, name, uid)
        annotations = secret["metadata"].get("annotations") or {}
        account_name = annotations.get(ACCOUNT_NAME) or ""
        if secret.get("type") != TOKEN_TYPE or not account_name:
            raise bad_request(f"Secret {namespace}/{name} is none for a ServiceAccount's token")
        account = await self._require(
            tenant, "", "serviceaccounts", namespace, account_name, annotations.get(ACCOUNT_UID) or ""
        )
        owner = Reference(account_name, account["metadata"]["uid"])
        return tokens.signed_for_secret(key, signer.id, namespace, owner, name)

    async def _credentials(self, tenant: str) -> Credentials:
        found = await self._registry.credentials(tenant)
        if found is None:
            raise not_found("tenants", "", tenant)
        return found

    async def _require(  # noqa: PLR0917 - one object
        self, tenant: str, group: str, plural: str, namespace: str, name: str, uid: str
    ) -> Object:
        """Return an object.

        Raises:
            StatusError: 404, the object does not exist; 409, its UID differs from a `uid` that is not empty.
        """
        record = None
        if name and "/" not in name and "/" not in namespace:
            record, _ = await self._store.get(object_key(tenant, group, plural, namespace, name))
        if record is None:
            raise not_found(plural, group, name)
        found: Object = msgspec.json.decode(record.value)
        if uid and found["metadata"]["uid"] != uid:
            raise conflict(plural, group, name, "it is another one than was meant")
        return found


def _true_conditions(status: dict[str, Any]) -> set[str]:
    """Return the types of true conditions. A condition of a CertificateSigningRequest without a status is true."""
    return {
        each.get("type") or ""
        for each in status.get("conditions") or ()
        if each.get("status") in (None, "", "True")
    }
