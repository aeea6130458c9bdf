"""Calls to identity providers that the operator has named: HTTPS, bounded in time and size, no redirects."""

import ssl
from collections.abc import Mapping

import aiohttp

from vcsync.kube.connector import Connector

CALL_SECONDS = 10.0
MAX_BYTES = 1024 * 1024


class CallError(Exception):
    """The call failed. The message says why and contains no secret."""


async def call(
    method: str,
    url: str,
    tls: ssl.SSLContext | None,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    seconds: float = CALL_SECONDS,
) -> bytes:
    """Send a request and return the body of its 2xx response.

    Args:
        method: HTTP method.
        url: URL.
        headers: Additional headers.
        body: Body of the request, or None.
        tls: Trusted authorities. None: those of this machine.
        seconds: Time until the response must be complete.

    Raises:
        CallError: There is no such response.
    """
    try:
        # Each call uses a connection of its own: calls are rare because callers cache the responses.
        async with (
            aiohttp.ClientSession(
                connector=Connector(), timeout=aiohttp.ClientTimeout(total=seconds)
            ) as session,
            session.request(
                method, url, data=body, headers=headers, ssl=tls or True, allow_redirects=False
            ) as answer,
        ):
            if not 200 <= answer.status < 300:
                raise CallError(f"{url} answers {answer.status}")
            content = await answer.content.read(MAX_BYTES + 1)
            while len(content) <= MAX_BYTES and not answer.content.at_eof():
                content += await answer.content.read(MAX_BYTES + 1 - len(content))
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise CallError(f"{url} does not answer: {str(error) or type(error).__name__}") from error
    if len(content) > MAX_BYTES:
        raise CallError(f"{url} answers with more than {MAX_BYTES} bytes")
    return content
