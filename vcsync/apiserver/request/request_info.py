"""Parses method and URL of a request into a RequestInfo. Pure.

Paths, verbs and messages are those of apiserver's `endpoints/request/requestinfo.go`. A URL names a tenant by the prefix
`/tenants/T/...` (a kubeconfig's server URL) or as in Arktos by `/api/V/tenants/T/...` and `/apis/G/V/tenants/T/...`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import parse_qs, unquote_to_bytes

from vcsync.apimachinery.errors import StatusError, bad_request
from vcsync.apimachinery.wire.values import BadValue, duration_of
from vcsync.apiserver.request.selectors import NOTHING, Selectors, read, read_short
from vcsync.objects.text_cache import cache_short_texts
from vcsync.patterns.linear import linear

ALL = "all"
"""Tenant in URLs that stands for all tenants with embedded control planes. Only system callers may use it."""
ALL_EXTERNAL = "all+external"
"""Tenant in URLs that stands for all tenants, with external control planes as well. No tenant can have this name."""
ALL_REACHABLE = "all+reachable"
"""The same without the external control planes that cannot be read at the moment."""
Beyond = Literal["", "all", "reachable"]
"""External control planes that a request for all tenants includes: none, all that are readable, or those that answer."""
_BEYOND: Mapping[str | None, Beyond] = {ALL_EXTERNAL: "all", ALL_REACHABLE: "reachable"}

NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
TENANT_SUBRESOURCES = frozenset({"status", "finalize"})
SPECIAL_VERBS = frozenset({"proxy", "watch"})
STREAMED = frozenset({"attach", "exec", "log", "portforward", "proxy"})
"""Subresources whose responses are streams, to which the timeout of the URL does not apply."""
VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
COLLECTIVE = frozenset({"list", "watch", "deletecollection"})
MAX_PATH = 8192
MAX_QUERY = 16384
MAX_PARAMETERS = 100
MAX_COMMAND_QUERY = 128 * 1024
MAX_ARGUMENTS = 2_000
"""Limits of the query of an `exec`, in which each argument of the command is a parameter. A query is parsed before its
sender is authenticated, so that its parsing must take milliseconds."""
MAX_LINE = 144 * 1024
"""Longest first line of a request: method, path and query."""
LONGEST_TIMEOUT = 64
"""Most characters of the parameter `timeout`. Go formats every duration with at most 25, and parses them at any length."""
SHORT_QUERY = 128
"""Length up to which parsed queries are cached: short queries repeat often."""

MALFORMED = linear("%[0-9a-fA-F]?(?:[^0-9a-fA-F]|$)")
_EXEC = linear("/namespaces/[^/]+/pods/[^/]+/exec$")

Query = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The attributes of a request.

    Attributes:
        verb: `get`, `list`, ... for resources; the method in lower case for other paths.
        tenant: Tenant that the URL names, or None.
        path: Path without the tenant.
        parts: Segments of the path from the resource on.
        by_path: Whether the path names the verb (`/watch/`).
        arktos: Whether the path names the tenant after the version, as in Arktos.
        by_host: Whether the host name of the request names the tenant, and the path does not.
        beyond: See `Beyond`. Only requests of system callers have it.
        core_tenants: Whether the path named Tenants by the core group; see `request.core_tenants`.
        selectors: Selectors of the request. None: they are too long to be parsed before the caller is authenticated; see
            `read_selectors`.
    """

    verb: str
    path: str
    tenant: str | None = None
    resource_request: bool = False
    prefix: str = ""
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    parts: tuple[str, ...] = ()
    by_path: bool = False
    arktos: bool = False
    by_host: bool = False
    beyond: Beyond = ""
    core_tenants: bool = False
    selectors: Selectors | None = NOTHING

    @property
    def selected(self) -> tuple[tuple[str, str], ...]:
        """Fields and values that the field selector requires. An invalid selector requires nothing."""
        return self.selectors.demanded if self.selectors is not None else ()


def parse_path(raw: str) -> str:
    """Decode the path of a URL.

    Raises:
        StatusError: 400, the path has encoded slashes, invalid percent signs, dot segments, NUL, or bytes that are not
            UTF-8.
    """
    if len(raw) > MAX_PATH:
        raise StatusError(414, "", "the request's path is too long")
    if "%" in raw:
        if "%2f" in raw.lower():
            raise bad_request("the request's path must not contain an encoded slash")
        if MALFORMED.search(raw):
            raise bad_request(
                "the request's path has a percent sign that two hexadecimal digits do not follow"
            )
    try:
        path = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise bad_request("the request's path is not UTF-8") from None
    if "\x00" in path or any(part in (".", "..") for part in path.split("/")):
        raise bad_request("the request's path must not contain dot segments or NUL")
    return path


def parse_query(raw: str, path: str = "") -> Query:
    """Decode the query of a URL. Repeated keys keep their order.

    Args:
        raw: The query.
        path: Path of the URL as it was received. Commands in Pods may have long queries.

    Raises:
        StatusError: 414 or 400, the query is too long or has too many parameters.
    """
    if not raw:
        return {}
    command = _EXEC.search(path) is not None
    if len(raw) > (MAX_COMMAND_QUERY if command else MAX_QUERY):
        raise StatusError(414, "", "the request's query is too long")
    return _decoded(raw, MAX_ARGUMENTS) if command else _parsed(raw)


@cache_short_texts(1024, SHORT_QUERY)
def _parsed(raw: str) -> Query:
    return _decoded(raw, MAX_PARAMETERS)


def _decoded(raw: str, most: int) -> Query:
    try:
        return parse_qs(raw, keep_blank_values=True, max_num_fields=most)
    except ValueError:
        raise bad_request("the request has too many query parameters") from None


def request_info(method: str, path: str, query: Query) -> RequestInfo:
    """Return the attributes of a request. `path` is the result of `parse_path`.

    Raises:
        StatusError: 400, the path has a verb without a resource.
    """
    tenant, path = _tenant_in_front(path)
    parts = _split(path)
    if path.startswith("//") or len(parts) < 3 or parts[0] not in ("api", "apis"):
        return RequestInfo(verb=method.lower(), path=path, tenant=tenant)
    prefix, parts = parts[0], parts[1:]
    group = ""
    if prefix == "apis":
        if len(parts) < 3:
            return RequestInfo(verb=method.lower(), path=path, tenant=tenant)
        group, parts = parts[0], parts[1:]
    version, parts = parts[0], parts[1:]
    verb, by_path = VERBS.get(method, ""), False
    if parts[0] in SPECIAL_VERBS:
        if len(parts) < 2:
            why = f"failed to create RequestInfo: unable to determine kind and namespace from url, {path}"
            raise StatusError(500, "", f'Internal Server Error: "{path}": {why}\n', plain=True)
        verb, by_path, parts = parts[0], True, parts[1:]
    in_front = tenant
    tenant, parts = _tenant_inside(in_front, parts)
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 and verb != "watch" else ""
    listed = not name and verb == "get"
    if listed:
        verb = "watch" if truth(query.get("watch", ())) else "list"
    if not name and verb == "delete":
        verb = "deletecollection"
    selectors = read_short(*_selector_texts(query)) if verb in COLLECTIVE else NOTHING
    if listed and selectors is not None:
        name = selectors.name
    return RequestInfo(
        verb=verb,
        path=path,
        tenant=tenant,
        resource_request=True,
        prefix=prefix,
        group=group,
        version=version,
        by_path=by_path,
        arktos=in_front is None and tenant is not None,
        namespace=namespace,
        resource=parts[0],
        name=name,
        subresource=subresource,
        parts=tuple(parts),
        selectors=selectors,
    )


def beyond_embedded(info: RequestInfo) -> RequestInfo:
    """Return the RequestInfo of a system caller, whose tenant is `ALL` if the URL names external control planes as well."""
    beyond = _BEYOND.get(info.tenant)
    return info if beyond is None else replace(info, tenant=ALL, beyond=beyond)


async def read_selectors(info: RequestInfo, query: Query) -> RequestInfo:
    """Return a RequestInfo with selectors that were too long to be parsed at once."""
    selectors = await read(*_selector_texts(query))
    # As with short selectors: a name in the path takes precedence, and deletions are always of collections.
    listed = not info.name and info.verb != "deletecollection" and not info.by_path
    return replace(info, selectors=selectors, name=selectors.name if listed else info.name)


def _selector_texts(query: Query) -> tuple[str, str]:
    return query.get("fieldSelector", ("",))[0], query.get("labelSelector", ("",))[0]


def check_timeout(info: RequestInfo, query: Query) -> None:
    """Refuse a `timeout` that is not a duration, in any request.

    Raises:
        StatusError: 400 with the message of apiserver's `endpoints/filters/request_deadline.go`.
    """
    asked = query.get("timeout", ("",))[0]
    if not asked or info.verb in SPECIAL_VERBS or info.subresource in STREAMED:
        return
    if len(asked) > LONGEST_TIMEOUT:
        raise _bad_timeout(f'time: invalid duration "{asked}"')
    try:
        duration_of(asked)
    except BadValue as wrong:
        raise _bad_timeout(str(wrong)) from None


def _bad_timeout(why: str) -> StatusError:
    return bad_request(f"invalid timeout specified in the request URL - {why}")


def truth(values: Sequence[str]) -> bool:
    """Parse a boolean parameter as apimachinery does: everything except `false` and `0` is true, even an empty value."""
    return bool(values) and values[0].lower() not in ("false", "0")


def _tenant_in_front(path: str) -> tuple[str | None, str]:
    if not path.startswith("/tenants/"):
        return None, path
    tenant, slash, rest = path.removeprefix("/tenants/").partition("/")
    return (tenant, slash + rest or "/") if tenant else (None, path)


def _tenant_inside(tenant: str | None, parts: list[str]) -> tuple[str | None, list[str]]:
    if (
        parts[0] == "tenants"
        and len(parts) >= 3
        and parts[1]
        and parts[2] not in TENANT_SUBRESOURCES
        and tenant is None
    ):
        return parts[1], parts[2:]
    return tenant, parts


def _split(path: str) -> list[str]:
    path = path.strip("/")
    return path.split("/") if path else []
