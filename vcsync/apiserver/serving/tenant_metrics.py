"""Counts the requests of each tenant for that tenant's /metrics, which reveals nothing of other tenants.

The metric is kube-apiserver's `apiserver_request_total`, so existing dashboards work.
"""

from collections import Counter, OrderedDict
from typing import NamedTuple

from vcsync.apiserver.request.request_info import RequestInfo

MAX_SERIES = 1000
"""Series of one tenant; further ones are counted together. A tenant may define any number of custom resources."""
MAX_ALL_SERIES = 100_000
"""Series of all tenants. Beyond that the tenants that were idle longest are forgotten and start again at zero."""
_VERBS = {
    "get": "GET",
    "list": "LIST",
    "watch": "WATCH",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
}
_HEAD = b"# HELP apiserver_request_total Requests by verb, resource and code.\n# TYPE apiserver_request_total counter\n"


class Series(NamedTuple):
    """Labels of one series, in the order in which they are written."""

    code: str
    group: str
    resource: str
    scope: str
    subresource: str
    verb: str
    version: str


class TenantMetrics:
    """Counts of the requests of every tenant."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, Counter[Series]] = OrderedDict()
        self._size = 0

    def count(self, tenant: str, info: RequestInfo, code: int, *, applies: bool) -> None:
        """Count an authorized request. `applies`: it is a server-side apply."""
        if not info.resource_request:
            return
        scope = (
            "resource" if info.name or info.verb == "create" else "namespace" if info.namespace else "cluster"
        )
        verb = "APPLY" if applies and info.verb == "patch" else _VERBS.get(info.verb, info.verb.upper())
        series = Series(str(code), info.group, info.resource, scope, info.subresource, verb, info.version)
        counts = self._tenants.setdefault(tenant, Counter())
        self._tenants.move_to_end(tenant)
        if series not in counts and len(counts) >= MAX_SERIES:
            series = Series(str(code), "", "other", scope, "", verb, "")
        self._size += series not in counts
        counts[series] += 1
        while self._size > MAX_ALL_SERIES:
            self._size -= len(self._tenants.popitem(last=False)[1])

    def text(self, tenant: str) -> bytes:
        """Return a tenant's counts in the text format of Prometheus."""
        counts = self._tenants.get(tenant, Counter())
        return _HEAD + b"".join(_line(series, count) for series, count in sorted(counts.items()))


def _line(series: Series, count: int) -> bytes:
    labels = ",".join(f"{name}={_quoted(value)}" for name, value in series._asdict().items())
    return f"apiserver_request_total{{{labels}}} {count}\n".encode()


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
