"""The path and query under which a request is forwarded: the bytes of the client, without the tenant. Pure.

The API server must read a request exactly as the filters here have read it, because they have limited and audited it.
So everything is refused that two servers could read differently: paths that are encoded twice, empty segments,
characters that a URL cannot contain, and semicolons in queries, which Go's parser drops.
"""

from vcsync.apimachinery.errors import StatusError, bad_request
from vcsync.apiserver.request.request_info import Query, RequestInfo, parse_path, request_info
from vcsync.patterns.linear import linear

_PATH = linear(r"/(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*")
"""An absolute path of RFC 3986, section 3.3."""
_DOTS = linear(r"/(?:\.|%2[Ee]){1,2};")
"""A dot segment to servers that cut parameters off segments."""
_QUERY = linear(r"(?:[!\"$&-:<-~]|%[0-9A-Fa-f]{2})*")
"""Printable ASCII without space, `#` and `;`; a percent sign only before two hexadecimal digits."""
_ENCODED_TWICE = linear(r"%25[0-9A-Fa-f]{2}")


def forwarded_target(method: str, raw_path: str, raw_query: str, info: RequestInfo, query: Query) -> str:
    """Return path and query of a request below the API server of its tenant.

    Args:
        method: Method of the request.
        raw_path: Path as the client sent it, percent-encoded.
        raw_query: Query as the client sent it, percent-encoded.
        info: What the filters have read of the request.
        query: The decoded query.

    Raises:
        StatusError: 400, the URL could be read in more than one way.
    """
    if not _PATH.fullmatch(raw_path):
        raise bad_request("the request's path has characters that must be percent-encoded")
    if _DOTS.search(raw_path):
        raise bad_request("the request's path must not contain dot segments")
    if _ENCODED_TWICE.search(raw_path):
        raise bad_request("the request's path must not be encoded twice")
    if not _QUERY.fullmatch(raw_query):
        raise bad_request("the request's query has characters that must be percent-encoded")
    path = _without_tenant(raw_path, None if info.by_host else info.tenant)
    if "//" in path:
        raise bad_request("the request's path must not contain empty segments")
    if not _is_same(info, _read_again(method, path, query)):
        raise bad_request("the request's path names its tenant in an ambiguous way")
    return f"{path}?{raw_query}" if raw_query else path


def _without_tenant(path: str, tenant: str | None) -> str:
    """Return a path without the segments that name the tenant. They must not be percent-encoded."""
    if tenant is None:
        return path
    prefix = f"/tenants/{tenant}"
    if path == prefix:
        return "/"
    if path.startswith(f"{prefix}/"):
        return path.removeprefix(prefix)
    before, inside, after = path.partition(f"{prefix}/")
    if not inside:
        raise bad_request("the request's path must not encode the name of its tenant")
    return f"{before}/{after}"


def _read_again(method: str, path: str, query: Query) -> RequestInfo | None:
    try:
        return request_info(method, parse_path(path), query)
    except StatusError:
        return None


def _is_same(info: RequestInfo, again: RequestInfo | None) -> bool:
    """Tell whether the API server reads the same request as the filters, for no tenant."""
    if again is None or again.tenant is not None:
        return False
    same = _attributes(info) == _attributes(again)
    return same and (info.resource_request or info.path == again.path)


def _attributes(info: RequestInfo) -> tuple[object, ...]:
    return (
        info.verb,
        info.resource_request,
        info.prefix,
        info.group,
        info.version,
        info.namespace,
        info.resource,
        info.subresource,
        info.parts,
        info.by_path,
    )
