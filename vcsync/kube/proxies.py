"""HTTP proxies of connections, from kubeconfigs and the environment."""

import os
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from vcsync.kube.errors import CredentialsError


def checked(url: str) -> str:
    """Return a proxy URL after a check.

    Raises:
        CredentialsError: It is not a URL, or its scheme is not supported (socks5).
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
    """Return the proxy for the URL of a server from HTTPS_PROXY, HTTP_PROXY and NO_PROXY, or None.

    Raises:
        CredentialsError: The proxy is not supported.
    """
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    parts = urlsplit(url)
    settings = getproxies_environment()
    proxy = settings.get(parts.scheme)
    if not proxy or proxy_bypass(parts.netloc):
        return None
    return checked(proxy if "://" in proxy else f"http://{proxy}")
