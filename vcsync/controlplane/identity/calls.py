"""Calls to identity providers that the operator has named: HTTPS, bounded in time and size, no redirects."""

import ssl
from collections.abc import Mapping

import aiohttp

CALL_SECONDS = 10.0
MAX_BYTES = 1024 * 1024


class CallError(Exception):
    """There is no answer, or not one that counts; the text says why, without anything secret."""


async def call(
    method: str,
    url: str,
    tls: ssl.SSLContext | None,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    seconds: float = CALL_SECONDS,
) -> bytes:
    """Return the body of a 2xx answer.

    Args:
        method: of HTTP.
        url: where to.
        headers: beside those that every call has.
        body: what is sent; None: nothing.
        tls: which authorities are trusted; None: those of this machine.
        seconds: until the whole answer must be here.

    Raises:
        CallError: there is none.
    """
    try:
        # A connection for each call: they are rare, and their answers are kept by who asks.
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as session,
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
        raise CallError(f"{url} does not answer: {error or type(error).__name__}") from error
    if len(content) > MAX_BYTES:
        raise CallError(f"{url} answers with more than {MAX_BYTES} bytes")
    return content
