"""Which HTTP proxy a request goes through: read once per connection, never per request."""

import os
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from vcsync.kube.errors import CredentialsError


def checked(url: str) -> str:
    """Return a proxy URL that can be used.

    Raises:
        CredentialsError: it is none, or of a kind that is not supported (socks5).
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        raise CredentialsError(
            "kubeconfig: field cluster.proxy-url: only http://host:port and https://host:port are supported"
        )
    return url


def from_environment(url: str) -> str | None:
    """Return the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name for a server's URL, if any.

    Raises:
        CredentialsError: they name one that is not supported.
    """
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    parts = urlsplit(url)
    settings = getproxies_environment()
    proxy = settings.get(parts.scheme)
    if not proxy or proxy_bypass(parts.netloc):
        return None
    return checked(proxy if "://" in proxy else f"http://{proxy}")
