"""One list or watch over all control planes: what it asks for, and where it begins. Pure."""

from dataclasses import dataclass
from urllib.parse import urlencode

from vcsync.apimachinery.errors import bad_request, expired
from vcsync.apimachinery.tenant_marks import TenantMark
from vcsync.apiserver.handlers.exchange import Embedded, Incoming
from vcsync.apiserver.request.options import EXACT, ListOptions, list_options
from vcsync.apiserver.request.paging import parse_version
from vcsync.apiserver.request.request_info import Beyond, Query, RequestInfo
from vcsync.gateway.all_tenants.shapes import Shape, negotiated
from vcsync.gateway.all_tenants.sources import SELECTING, EmbeddedSource, collection_path
from vcsync.gateway.all_tenants.versions import (
    PREFIX,
    BadToken,
    Position,
    Versions,
    decode_position,
    decode_versions,
)


@dataclass(frozen=True, slots=True)
class ListRequest:
    """One list or watch.

    Attributes:
        info: What it is about.
        query: Its query.
        options: Its options.
        shape: Shape of the answer.
        key: Tells it from requests for other objects.
        embedded: The embedded control planes.
        audit_id: Identifies it in audit logs.
    """

    info: RequestInfo
    query: Query
    options: ListOptions
    shape: Shape
    key: str
    embedded: EmbeddedSource
    audit_id: str

    @property
    def beyond(self) -> Beyond:
        """Name of the set of external control planes that the request includes."""
        return self.info.beyond


def list_request(incoming: Incoming, info: RequestInfo, query: Query, embedded: Embedded) -> ListRequest:
    """Parse a request for a list or a watch over all tenants.

    Raises:
        StatusError: 400, 406 or 422.
    """
    if info.by_path and len(info.parts) > 1:
        raise bad_request("a watch of one object must name it by a fieldSelector, and not by its path")
    watch = info.verb == "watch"
    mark = TenantMark.FIELD if info.arktos else TenantMark.ANNOTATION
    shape = negotiated(incoming.headers.get("Accept", ""), mark, watch=watch)
    path = collection_path(info)
    selecting = {key: query[key][0] for key in SELECTING if query.get(key)}
    return ListRequest(
        info,
        query,
        list_options(query, watch=info.by_path),
        shape,
        f"{path}?{urlencode(selecting)}",
        EmbeddedSource(embedded, info, query, shape),
        incoming.audit_id,
    )


def list_start(options: ListOptions) -> Position | None:
    """Return where a list begins, or None if it is to be of the newest state.

    A list of the newest state is not older than any version that a client can know.

    Raises:
        StatusError: 400, a token is none; 410, it is one of an answer that cannot be continued.
    """
    version = options.resource_version
    if options.continue_:
        if version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        try:
            return decode_position(options.continue_)
        except BadToken as error:
            raise bad_request(f"invalid continue token: {error}") from None
    exact = options.match == EXACT
    if not version.startswith(PREFIX):
        parse_version(version, listed=True)
        if exact:
            raise bad_request("invalid resource version: it is a version of one control plane")
        return None
    versions = versions_of(version)
    return Position(versions) if exact or (not options.match and options.limit > 0) else None


def versions_of(text: str) -> Versions:
    """Read a resource version.

    Raises:
        StatusError: 400, it is none.
    """
    try:
        return decode_versions(text)
    except BadToken as error:
        raise bad_request(f"invalid resource version: {error}") from None


def watch_start(text: str) -> Versions | None:
    """Return the versions from which a watch continues. None: it begins with all that is there.

    Raises:
        StatusError: 400, the text is no resource version; 410, it is that of one control plane.
    """
    if text.startswith(PREFIX):
        return versions_of(text)
    if parse_version(text):
        raise expired(
            "too old resource version: it is that of one control plane; list again, or ask for bookmarks and "
            "continue from theirs"
        )
    return None
