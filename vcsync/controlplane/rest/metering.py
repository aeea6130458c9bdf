"""Counts each tenant's requests for that tenant's own /metrics; nothing of others is told there.

The series are kube-apiserver's `apiserver_request_total`, so that whoever reads those understands these.
"""

from collections import Counter, OrderedDict
from typing import NamedTuple

from vcsync.controlplane.rest.requestinfo import RequestInfo

MAX_SERIES = 1000
"""Of one tenant; what comes later is counted together. Custom resources are as many as a tenant likes."""
MAX_ALL_SERIES = 100_000
"""Of all tenants; beyond that those are forgotten who have been silent longest, and begin at nothing again."""
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
    """What is counted apart, in the order of its labels."""

    code: str
    group: str
    resource: str
    scope: str
    subresource: str
    verb: str
    version: str


class Meter:
    """Requests of every tenant."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self._tenants: OrderedDict[str, Counter[Series]] = OrderedDict()
        self._size = 0

    def count(self, tenant: str, info: RequestInfo, code: int, *, applies: bool) -> None:
        """Count a request that was let in; `applies`: its patch is a server-side apply."""
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
        """Return a tenant's counts in the text form of Prometheus."""
        counts = self._tenants.get(tenant, Counter())
        return _HEAD + b"".join(_line(series, count) for series, count in sorted(counts.items()))


def _line(series: Series, count: int) -> bytes:
    labels = ",".join(f"{name}={_quoted(value)}" for name, value in series._asdict().items())
    return f"apiserver_request_total{{{labels}}} {count}\n".encode()


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
