"""What a webhook's `clientConfig` names: a URL or a Service, and how its certificate is checked. Pure."""

import base64
import binascii
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from vcsync.controlplane.egress.failure import CallFailed
from vcsync.controlplane.egress.hosts import HTTPS, canonical

LARGEST_BUNDLE = 1 << 20
"""Bytes of a caBundle that are looked at."""
_SAFE = "/:@!$&'()*+,;=~-._"


@dataclass(frozen=True, slots=True)
class ServiceName:
    """A Service of the tenant's own."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Target:
    """Where somebody wants a call to go; whether it may is the policy's to say.

    Attributes:
        tenant: who chose it; empty: the operator.
        host: of the URL; a Service's: `NAME.NAMESPACE.svc`. It is the name that the certificate must have.
        path: percent-encoded.
        service: None: it is a URL.
        bundle: authorities that are trusted, PEM; empty: the system's.
    """

    tenant: str
    host: str
    port: int
    path: str
    service: ServiceName | None = None
    bundle: bytes = b""

    @property
    def authority(self) -> str:
        """Host and port as URLs have them; the usual port of a URL is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == HTTPS and self.service is None else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """What is called, as messages tell it."""
        return f"https://{self.authority}{self.path}"


def target_of(tenant: str, config: Mapping[str, Any]) -> Target:
    """Read a `clientConfig`.

    Raises:
        CallFailed: it names nothing that can be called.
    """
    bundle = _bundle(config.get("caBundle") or "")
    service = config.get("service")
    if service is not None:
        named = ServiceName(service.get("namespace") or "", service.get("name") or "")
        host = f"{named.name}.{named.namespace}.svc"
        return Target(
            tenant, host, service.get("port") or HTTPS, _path(service.get("path") or ""), named, bundle
        )
    try:
        parts = urlsplit(str(config.get("url") or ""))
        host, port = canonical(parts.hostname or ""), parts.port or HTTPS
    except ValueError as wrong:
        raise CallFailed(f"Unparsable URL: {wrong}") from wrong
    if parts.scheme != "https" or not host or "@" in parts.netloc:
        raise CallFailed("Unparsable URL: it is not https://HOST[:PORT][/PATH]")
    return Target(tenant, host, port, _path(parts.path), bundle=bundle)


def _path(text: str) -> str:
    """Clean a path as clients of the API do, and encode what must be."""
    cleaned = posixpath.normpath("/" + unquote(text).lstrip("/"))
    return quote(cleaned, safe=_SAFE)


def _bundle(text: str) -> bytes:
    try:
        found = base64.b64decode(text, validate=False).strip()
    except (binascii.Error, ValueError) as wrong:
        raise CallFailed("unable to load root certificates: caBundle is not base64") from wrong
    if len(found) > LARGEST_BUNDLE:
        raise CallFailed(f"unable to load root certificates: caBundle is larger than {LARGEST_BUNDLE} bytes")
    return found
