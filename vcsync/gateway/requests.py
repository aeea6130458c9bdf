"""One request to an external API server, and the log of servers that cannot be reached."""

from collections.abc import Awaitable
from typing import TypeVar

import aiohttp
import structlog
from multidict import CIMultiDict
from yarl import URL

from vcsync.apimachinery.errors import StatusError
from vcsync.gateway.bodies import RequestBody
from vcsync.gateway.failures import UNREACHED
from vcsync.gateway.headers import Pairs
from vcsync.gateway.upstreams import Pool

_Result = TypeVar("_Result")
_log = structlog.get_logger(__name__)


def credential(pool: Pool) -> Pairs:
    """Return the headers that authenticate the gateway."""
    return [("Authorization", f"Bearer {pool.upstream.token}")]


async def request(
    pool: Pool, method: str, target: str, headers: Pairs, body: bytes | RequestBody | None = None
) -> aiohttp.ClientResponse:
    """Send a request, and return the answer, whose body follows.

    Args:
        pool: Connections of the tenant.
        method: Method of the request.
        target: Path and query below the API server.
        headers: Its headers.
        body: Its body.

    Raises:
        aiohttp.ClientError: The server cannot be reached.
        OSError: Likewise.
    """
    if pool.session.closed:
        raise ConnectionAbortedError("the API server has been replaced")
    return await pool.session.request(
        method,
        URL(pool.url + target, encoded=True),
        headers=CIMultiDict(headers),
        data=body,
        allow_redirects=False,
        server_hostname=pool.server_name,
    )


async def logged(pool: Pool, answer: Awaitable[_Result]) -> _Result:
    """Return an answer. Log when the API server begins to fail, and when it answers again."""
    try:
        result = await answer
    except StatusError as error:
        if error.code in UNREACHED and not pool.failing:
            pool.failing = True
            _log.warning(
                "an external control plane cannot be reached", tenant=pool.tenant, reason=error.message
            )
        raise
    if pool.failing:
        pool.failing = False
        _log.info("an external control plane is reached again", tenant=pool.tenant)
    return result
