"""Client of the roles' /status and /timeline."""

from typing import Any

import aiohttp

from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.fairqueue import ObjectName

SECONDS = 5.0


def status_url(endpoint: str) -> str:
    """Return the URL of /status for the user's input: ``HOST:PORT`` or a URL.

    Raises:
        WrongInputError: It is neither.
    """
    url = endpoint if "://" in endpoint else f"http://{endpoint}"
    if not url.startswith(("http://", "https://")) or url.count("://") != 1:
        raise WrongInputError(
            f"--endpoint {endpoint!r}: give HOST:PORT or a URL, for instance 127.0.0.1:10550"
        )
    return url if url.endswith("/status") else f"{url.rstrip('/')}/status"


async def timeline_of(
    endpoints: tuple[str, ...], tenants: tuple[str, ...], name: ObjectName
) -> list[dict[str, Any]]:
    """Get the last transitions of an object from every endpoint.

    Args:
        endpoints: `HOST:PORT` or URLs.
        tenants: the names by which roles know the tenant.
        name: the object.

    Returns:
        The transitions of all roles, oldest first.

    Raises:
        FailedError: One does not answer like a status endpoint of vcsync.
    """
    query = [*(("tenant", tenant) for tenant in tenants), ("object", "/".join(name))]
    found: list[dict[str, Any]] = []
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        for endpoint in endpoints:
            url = status_url(endpoint).removesuffix("/status") + "/timeline"
            try:
                async with session.get(url, params=query) as answer:
                    document = await answer.json(content_type=None)
                found += document["transitions"]
            except (TimeoutError, aiohttp.ClientError, ValueError, KeyError, TypeError) as error:
                reason = str(error) or type(error).__name__
                raise FailedError(f"{url}: {reason}: is a vcsync role listening there? (--listen)") from error
    return sorted(found, key=lambda transition: str(transition["time"]))


async def roles_of(endpoints: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Get the roles of every endpoint.

    Raises:
        FailedError: One does not answer like a status endpoint of vcsync.
    """
    roles: dict[str, dict[str, Any]] = {}
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        for endpoint in endpoints:
            url = status_url(endpoint)
            try:
                async with session.get(url) as answer:
                    document = await answer.json(content_type=None)
                roles.update(document["roles"])
            except (TimeoutError, aiohttp.ClientError, ValueError, KeyError, TypeError) as error:
                reason = str(error) or type(error).__name__
                raise FailedError(f"{url}: {reason}: is a vcsync role listening there? (--listen)") from error
    return roles
