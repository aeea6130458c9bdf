"""What is signed with tenants' keys on behalf of controllers: certificates that were approved, tokens for Secrets.

Keys stay in this process. Who asks only names an object; what may be signed is read from the store: that a request has
been approved, that a Secret asks for a token of a ServiceAccount which is there. So whoever may ask gains nothing that
the API does not give.
"""

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import bad_request, conflict, not_found
from vcsync.controlplane.identity import tokens
from vcsync.controlplane.identity.guarded import not_signed
from vcsync.controlplane.identity.revocations import Revocations
from vcsync.controlplane.identity.tokens import Reference
from vcsync.controlplane.resources import object_key
from vcsync.controlplane.store.interface import Store
from vcsync.controlplane.tenants.registry import Credentials, TenantRegistry
from vcsync.controlplane.tenants.signing import sign
from vcsync.kube.signing_requests import SIGNERS, RequestError, common_name, parse, refusal

GROUP, REQUESTS = "certificates.k8s.io", "certificatesigningrequests"
TOKEN_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 - a Secret's type
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"


class Issued(msgspec.Struct, omit_defaults=True):
    """What became of a request: the certificate (PEM), or why there is none."""

    certificate: str = ""
    failure: str = ""


class Issuer:
    """Signs for controllers."""

    def __init__(
        self, store: Store, registry: TenantRegistry, revocations: Revocations, clock: Callable[[], float]
    ) -> None:
        """Take where objects, keys and revocations are, and the time."""
        self._store = store
        self._registry = registry
        self._revocations = revocations
        self._clock = clock

    async def certificate(self, tenant: str, name: str, uid: str) -> Issued:
        """Sign what an approved CertificateSigningRequest asks for.

        Raises:
            StatusError: 404, there is no such tenant or request; 409, it is another one, or not (or not any more) to be
                signed; 400, its signer is none of ours.
            StoreError: the store cannot be read.
        """
        credentials = await self._credentials(tenant)
        found = await self._require(tenant, GROUP, REQUESTS, "", name, uid)
        spec, status = found.get("spec") or {}, found.get("status") or {}
        signer = spec.get("signerName") or ""
        if signer not in SIGNERS:
            raise bad_request(f"signer {signer!r} is none of ours")
        said = _conditions(status)
        if "Approved" not in said or not said.isdisjoint(("Denied", "Failed")) or status.get("certificate"):
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
                # Admission refuses it; a request of earlier times may still stand.
                refused = f"use of {signer} signer with {named} is not allowed"
            if refused:
                return Issued(failure=refused)
            after = self._revocations.issue_after(tenant, common_name(request))
            seconds = spec.get("expirationSeconds")
            return Issued(sign(authority, request, usages, seconds, self._clock(), after=after))
        except (RequestError, ValueError) as error:
            return Issued(failure=str(error))

    async def token(self, tenant: str, namespace: str, name: str, uid: str) -> str:
        """Return a token, without end, of the ServiceAccount that a Secret names.

        Raises:
            StatusError: 404, there is no such tenant, Secret or account; 409, it is another one; 400, the Secret is none
                for tokens.
            StoreError: the store cannot be read.
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
        """Return an object; an empty `uid` stands for any."""
        record = None
        if name and "/" not in name and "/" not in namespace:
            record, _ = await self._store.get(object_key(tenant, group, plural, namespace, name))
        if record is None:
            raise not_found(plural, group, name)
        found: Object = msgspec.json.decode(record.value)
        if uid and found["metadata"]["uid"] != uid:
            raise conflict(plural, group, name, "it is another one than was meant")
        return found


def _conditions(status: dict[str, Any]) -> set[str]:
    """Return the types of conditions that hold; for these, no status at all means that as well."""
    return {
        each.get("type") or ""
        for each in status.get("conditions") or ()
        if each.get("status") in (None, "", "True")
    }
