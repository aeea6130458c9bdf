"""Has the control plane sign what only it has the keys for: certificates that were approved, tokens for Secrets."""

import msgspec
from msgspec import Struct

from vcsync.kube.client import Client

TENANTS = "/vcsync/v1/tenants"


class Issued(Struct):
    """What became of a certificate request: the certificate (PEM), or why there is none."""

    certificate: str = ""
    failure: str = ""


class _Token(Struct):
    token: str


class Issuing:
    """Asks the control plane."""

    def __init__(self, server: Client) -> None:
        """Take the client of the control plane's root, as a system caller."""
        self._server = server

    async def certificate(self, tenant: str, name: str, uid: str) -> Issued:
        """Have an approved CertificateSigningRequest signed.

        Raises:
            KubeError: it cannot be; Conflict, NotFound: it is not any more what was meant.
        """
        body = {"name": name, "uid": uid}
        return msgspec.json.decode(await self._post(f"{TENANTS}/{tenant}/certificates", body), type=Issued)

    async def token(self, tenant: str, namespace: str, name: str, uid: str) -> str:
        """Return the ServiceAccount token that a Secret is to hold.

        Raises:
            KubeError: there is none; Conflict, NotFound: the Secret or the account is not any more what was meant.
        """
        body = {"namespace": namespace, "name": name, "uid": uid}
        return msgspec.json.decode(await self._post(f"{TENANTS}/{tenant}/tokens", body), type=_Token).token

    async def _post(self, path: str, body: dict[str, str]) -> bytes:
        return await self._server.request("POST", path, body=msgspec.json.encode(body))
