"""Parses the `clientConfig` of a webhook: a URL or a Service, and the trusted authorities. Pure."""

import base64
import binascii
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.egress.hosts import HTTPS, canonical

MAX_BUNDLE_BYTES = 1 << 20
"""Largest caBundle."""
_SAFE = "/:@!$&'()*+,;=~-._"


@dataclass(frozen=True, slots=True)
class ServiceName:
    """Namespace and name of a Service of the tenant."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of a call. The policy decides whether it may be called.

    Attributes:
        tenant: Tenant that chose the destination. Empty: the operator chose it.
        host: Host of the URL, or `NAME.NAMESPACE.svc` of the Service. The certificate must have this name.
        port: Port of the URL or of the Service.
        path: Percent-encoded path.
        service: The Service, or None if the destination is a URL.
        bundle: Trusted authorities in PEM. Empty: those of the system.
    """

    tenant: str
    host: str
    port: int
    path: str
    service: ServiceName | None = None
    bundle: bytes = b""

    @property
    def authority(self) -> str:
        """Host and port in the form of URLs. The default port of a URL is omitted."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == HTTPS and self.service is None else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """URL in messages."""
        return f"https://{self.authority}{self.path}"


def target_of(tenant: str, config: Mapping[str, Any]) -> Target:
    """Parse a `clientConfig`.

    Args:
        tenant: Tenant that wrote it. Empty: the operator wrote it.
        config: The `clientConfig`.

    Raises:
        CallFailed: The URL or the caBundle is invalid.
    """
    bundle = _bundle(config.get("caBundle") or "")
    service = config.get("service")
    if service is not None:
        name = ServiceName(service.get("namespace") or "", service.get("name") or "")
        host = f"{name.name}.{name.namespace}.svc"
        return Target(
            tenant, host, service.get("port") or HTTPS, _path(service.get("path") or ""), name, bundle
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
    """Normalize and percent-encode a path as Kubernetes' REST client does."""
    cleaned = posixpath.normpath("/" + unquote(text).lstrip("/"))
    return quote(cleaned, safe=_SAFE)


def _bundle(text: str) -> bytes:
    try:
        bundle = base64.b64decode(text, validate=False).strip()
    except (binascii.Error, ValueError) as wrong:
        raise CallFailed("unable to load root certificates: caBundle is not base64") from wrong
    if len(bundle) > MAX_BUNDLE_BYTES:
        raise CallFailed(
            f"unable to load root certificates: caBundle is larger than {MAX_BUNDLE_BYTES} bytes"
        )
    return bundle
