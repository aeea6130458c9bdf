"""Asking running roles for their /status."""

from typing import Any

import aiohttp

from vcsync.cli.errors import FailedError, WrongInputError

SECONDS = 5.0


def status_url(endpoint: str) -> str:
    """Return the URL of /status for what a user gives: ``HOST:PORT`` or a URL.

    Raises:
        WrongInputError: It is neither.
    """
    url = endpoint if "://" in endpoint else f"http://{endpoint}"
    if not url.startswith(("http://", "https://")) or url.count("://") != 1:
        raise WrongInputError(
            f"--endpoint {endpoint!r}: give HOST:PORT or a URL, for instance 127.0.0.1:10550"
        )
    return url if url.endswith("/status") else f"{url.rstrip('/')}/status"


async def roles_of(endpoints: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Ask every endpoint for its roles.

    Raises:
        FailedError: One does not answer as our status endpoint does.
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
