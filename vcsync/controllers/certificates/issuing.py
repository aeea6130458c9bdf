"""Client for signatures whose keys only the control plane has: approved certificates, and tokens for Secrets."""

import msgspec
from msgspec import Struct

from vcsync.kube.client import Client

TENANTS = "/vcsync/v1/tenants"


class Issued(Struct):
    """The result of a certificate request: the certificate (PEM), or the reason why there is none."""

    certificate: str = ""
    failure: str = ""


class _Token(Struct):
    token: str


class Issuing:
    """Requests signatures from the control plane."""

    def __init__(self, server: Client) -> None:
        """Initialize with the client of the control plane's root, as a system caller."""
        self._server = server

    async def certificate(self, tenant: str, name: str, uid: str) -> Issued:
        """Request the signature of an approved CertificateSigningRequest.

        Raises:
            KubeError: it cannot be signed; Conflict, NotFound: it has changed or is gone.
        """
        body = {"name": name, "uid": uid}
        return msgspec.json.decode(await self._post(f"{TENANTS}/{tenant}/certificates", body), type=Issued)

    async def token(self, tenant: str, namespace: str, name: str, uid: str) -> str:
        """Return the ServiceAccount token for a Secret.

        Raises:
            KubeError: it cannot be issued; Conflict, NotFound: the Secret or the account has changed or is gone.
        """
        body = {"namespace": namespace, "name": name, "uid": uid}
        return msgspec.json.decode(await self._post(f"{TENANTS}/{tenant}/tokens", body), type=_Token).token

    async def _post(self, path: str, body: dict[str, str]) -> bytes:
        return await self._server.request("POST", path, body=msgspec.json.encode(body))
