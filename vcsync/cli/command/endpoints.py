"""Client of the roles' /status and /timeline."""

import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import aiohttp
import click
import msgspec

from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.fairqueue import ObjectName
from vcsync.kube import tls
from vcsync.kube.errors import CredentialsError
from vcsync.process.legible import legible
from vcsync.status.access import bearer
from vcsync.status.server import ListenAddressError, is_loopback, parse_listen

SECONDS = 5.0
MAX_REFUSAL = 1000
"""Characters of a refusal that are shown."""
TOKEN_OPTION, CA_OPTION = "--endpoint-token-file", "--endpoint-ca"

Command = TypeVar("Command", bound=Callable[..., Any])


class Endpoints(NamedTuple):
    """Status endpoints to read, and how.

    Attributes:
        addresses: `HOST:PORT` or URLs.
        token: File with a bearer token; None: none is sent.
        authority: File with the CA of their certificates; None: those of the system.
    """

    addresses: tuple[str, ...] = ()
    token: Path | None = None
    authority: Path | None = None


def endpoint_options(command: Command) -> Command:
    """Add the options that name endpoints. The command gets them as `endpoint`, `endpoint_token_file` and `endpoint_ca`."""
    file = click.Path(dir_okay=False, path_type=Path)
    for option in reversed(
        (
            click.option(
                "--endpoint",
                multiple=True,
                metavar="HOST:PORT",
                help="Also read the status of the roles that serve it there (--listen of 'vcsync run'); may be repeated. Without "
                "http:// or https:// it is HTTP on loopback, elsewhere HTTPS.",
            ),
            click.option(
                TOKEN_OPTION,
                metavar="FILE",
                type=file,
                help="Token of a user of the meta cluster who may read them; it is sent over HTTPS only.",
            ),
            click.option(
                CA_OPTION,
                metavar="FILE",
                type=file,
                help="CA of their certificates, or one of these, PEM (default: the CAs of this machine).",
            ),
        )
    ):
        command = option(command)
    return command


def status_url(endpoint: str) -> str:
    """Return the URL of /status for the user's input: ``HOST:PORT`` or a URL.

    Raises:
        WrongInputError: It is neither.
    """
    url = endpoint if "://" in endpoint else f"{_scheme_of(endpoint)}://{endpoint}"
    if not url.startswith(("http://", "https://")) or url.count("://") != 1:
        raise WrongInputError(
            f"--endpoint {endpoint!r}: give HOST:PORT or a URL, for instance 127.0.0.1:10550"
        )
    return url if url.endswith("/status") else f"{url.rstrip('/')}/status"


def _scheme_of(endpoint: str) -> str:
    """Return how roles serve at an address without a scheme."""
    try:
        host, _ = parse_listen(endpoint.partition("/")[0])
    except ListenAddressError:
        return "http"
    return "http" if is_loopback(host) else "https"


async def timeline_of(
    endpoints: Endpoints, tenants: tuple[str, ...], name: ObjectName
) -> list[dict[str, Any]]:
    """Get the last transitions of an object from every endpoint.

    Args:
        endpoints: The endpoints.
        tenants: the names by which roles know the tenant.
        name: the object.

    Returns:
        The transitions of all roles, oldest first.

    Raises:
        FailedError: One does not answer like a status endpoint of vcsync.
    """
    query = [*(("tenant", tenant) for tenant in tenants), ("object", "/".join(name))]
    found: list[dict[str, Any]] = []
    for each in await _documents(endpoints, "/timeline", query, list[dict[str, Any]], "transitions"):
        found += each
    return sorted(found, key=lambda transition: str(transition["time"]))


async def roles_of(endpoints: Endpoints) -> dict[str, dict[str, Any]]:
    """Get the roles of every endpoint.

    Raises:
        FailedError: One does not answer like a status endpoint of vcsync.
    """
    roles: dict[str, dict[str, Any]] = {}
    for each in await _documents(endpoints, "/status", (), dict[str, dict[str, Any]], "roles"):
        roles.update(each)
    return roles


_Field = TypeVar("_Field")


async def _documents(
    endpoints: Endpoints,
    path: str,
    query: Sequence[tuple[str, str]],
    kind: type[_Field],
    field: str,
) -> list[_Field]:
    """Get a field of the document at a path of every endpoint."""
    if not endpoints.addresses:
        return []
    headers, context = _headers(endpoints), _context(endpoints)
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    found = []
    async with aiohttp.ClientSession(timeout=timeout) as session:
        for endpoint in endpoints.addresses:
            url = status_url(endpoint).removesuffix("/status") + path
            secure = url.startswith("https://")
            try:
                async with session.get(
                    url,
                    params=query,
                    headers=headers if secure else {},
                    ssl=context if secure else True,
                    allow_redirects=False,  # the token is for this server only
                ) as answer:
                    body = await answer.read()
                    if answer.status != 200:
                        shown = legible(body[:MAX_REFUSAL].decode(errors="replace").strip())
                        raise FailedError(
                            f"{url}: {answer.status} {shown}{_remedy(answer.status, endpoints)}"
                        )
                found.append(msgspec.convert(msgspec.json.decode(body, type=dict[str, Any])[field], kind))
            except (TimeoutError, aiohttp.ClientError, ValueError, KeyError) as error:
                reason = str(error) or type(error).__name__
                raise FailedError(f"{url}: {reason}: is a vcsync role listening there? (--listen)") from error
    return found


def _remedy(status: int, endpoints: Endpoints) -> str:
    return f" ({TOKEN_OPTION})" if status == 401 and endpoints.token is None else ""


def _headers(endpoints: Endpoints) -> dict[str, str]:
    """Return the header with the token.

    Raises:
        WrongInputError: The file has none.
    """
    if endpoints.token is None:
        return {}
    try:
        token = bearer(f"Bearer {endpoints.token.read_text(encoding='ascii').strip()}")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongInputError(f"{TOKEN_OPTION} {endpoints.token}: {_why(error)}") from error
    if token is None:
        raise WrongInputError(f"{TOKEN_OPTION} {endpoints.token}: it has no token")
    return {"Authorization": f"Bearer {token}"}


def _context(endpoints: Endpoints) -> ssl.SSLContext:
    """Return how certificates are verified.

    Raises:
        WrongInputError: The file has no CA.
    """
    try:
        return tls.client_context(ca=endpoints.authority.read_bytes() if endpoints.authority else b"")
    except OSError as error:
        raise WrongInputError(f"{CA_OPTION} {endpoints.authority}: {_why(error)}") from error
    except CredentialsError:
        raise WrongInputError(f"{CA_OPTION} {endpoints.authority}: it has no certificate (PEM)") from None


def _why(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is no text"
