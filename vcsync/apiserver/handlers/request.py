"""One authorized request for a resource, as the verbs see it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from vcsync.apimachinery.tenant_marks import TenantMark
from vcsync.apimachinery.wire.negotiation import Representation
from vcsync.apiserver.registry.selection import Selection, selection
from vcsync.apiserver.request.core_tenants import in_core_group
from vcsync.apiserver.request.request_info import ALL, Query, RequestInfo
from vcsync.apiserver.request.resource import Kind
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.request.selectors import Selectors

ReadBody = Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Headers:
    """Request headers that handlers read.

    Attributes:
        all: All headers, for subresources that switch to another protocol.
    """

    content_type: str = ""
    accept: str = ""
    agent: str = ""
    all: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Request:
    """One request for a resource, after authorization.

    Attributes:
        body: Reads the body.
        representation: Form of the response that was negotiated.
    """

    info: RequestInfo
    query: Query
    headers: Headers
    body: ReadBody
    scope: Scope
    representation: Representation

    @property
    def answered_kind(self) -> Kind:
        """The kind as the answer shows it."""
        return in_core_group(self.scope.kind) if self.info.core_tenants else self.scope.kind


def tenant_mark(request: Request) -> TenantMark:
    """Return how the objects of the response name their tenants: only responses that cover all tenants do."""
    if request.scope.tenant != ALL:
        return TenantMark.NONE
    return TenantMark.FIELD if request.info.arktos else TenantMark.ANNOTATION


def selectors_of(request: Request) -> Selectors:
    """Return the selectors by which the request was authorized."""
    if request.info.selectors is None:
        raise AssertionError("selectors are read before a request is authorized")
    return request.info.selectors


def listed_selection(request: Request) -> Selection:
    """Return which objects a list or watch selects.

    The name in the scope comes from the field selector unless the path names an object, so it is dropped here.
    """
    scope = request.scope
    if len(request.info.parts) < 2:
        scope.name = ""
    return selection(scope.kind, selectors_of(request), scope.name)
