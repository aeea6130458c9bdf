"""Answers requests of the resource metrics API from known usage. Pure.

Behaviour: metrics-server's `pkg/api/{pod,node}.go`. Selectors of fields know `metadata.name` and `metadata.namespace`, as there.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from vcsync.objects.selectors import InvalidSelector, parse_selector
from vcsync.resourcemetrics import documents
from vcsync.resourcemetrics.documents import Described, Usage
from vcsync.resourcemetrics.version import GROUP, VERSION, resource_list

PATH: Final = f"/apis/{GROUP}/{VERSION}"
MAX_SELECTOR: Final = 16 * 1024
"""Most characters of a selector, as in the API of embedded control planes."""
MAX_REQUIREMENTS: Final = 100
"""Most requirements of a selector, each of which is compared with each Pod. metrics-server has no limit of its own."""
_FIELDS: Final = {"metadata.name": "name", "metadata.namespace": "namespace"}


class PodReport(Struct, frozen=True):
    """Usage of one of the tenant's Pods.

    Attributes:
        pod: Its name, namespace and labels.
        node: Name of its virtual node.
        usage: Its usage.
    """

    pod: Described
    node: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for metrics.

    Attributes:
        plural: `pods` or `nodes`; empty: the list of resources.
        namespace: Namespace. Empty: all.
        name: Name of the object. Empty: a list.
        selects: Tells whether an object is selected.
    """

    plural: str
    namespace: str
    name: str
    selects: Callable[[Described], bool]


@dataclass(frozen=True, slots=True)
class Answer:
    """A response in JSON."""

    status: int
    body: bytes


class Unserved(Exception):
    """A request is not served.

    Args:
        answer: The response.
    """

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


def parse(method: str, path: str, query: Mapping[str, str]) -> Asked:
    """Return what a request asks for.

    Args:
        method: HTTP method.
        path: Percent-encoded path.
        query: Parameters.

    Raises:
        Unserved: 400, 404 or 405.
    """
    if method != "GET" or query.get("watch", "") not in ("", "0", "false"):
        raise Unserved(_status(405, "MethodNotAllowed", "only get and list are supported"))
    if path != PATH and not path.startswith(f"{PATH}/"):
        raise Unserved(_missing_page())
    parts = [unquote(part) for part in path.removeprefix(PATH).strip("/").split("/")]
    selects = _selection(query)
    match parts:
        case [""]:
            return Asked("", "", "", selects)
        case ["pods" | "nodes" as plural]:
            return Asked(plural, "", "", selects)
        case ["nodes", name]:
            return Asked("nodes", "", name, selects)
        case ["namespaces", namespace, "pods"]:
            return Asked("pods", namespace, "", selects)
        case ["namespaces", namespace, "pods", name]:
            return Asked("pods", namespace, name, selects)
    raise Unserved(_missing_page())


def answer(asked: Asked, pods: Sequence[PodReport], nodes: Iterable[Described], now: str) -> Answer:
    """Answer a request.

    Args:
        asked: The request.
        pods: Usage of all of the tenant's Pods.
        nodes: The tenant's nodes.
        now: The time, RFC 3339.
    """
    if not asked.plural:
        return Answer(200, resource_list())
    if asked.plural == "pods":
        wanted = [each for each in pods if asked.namespace in ("", each.pod.namespace)]
        wanted = [each for each in wanted if asked.name in ("", each.pod.name) and asked.selects(each.pod)]
        found = [documents.pod_metrics(each.pod, each.usage, now) for each in _ordered(wanted)]
        return _encoded(asked, "PodMetrics", found)
    by_node: dict[str, list[Usage]] = defaultdict(list)
    for each in pods:
        by_node[each.node].append(each.usage)
    chosen = [node for node in nodes if asked.name in ("", node.name) and asked.selects(node)]
    found = [
        documents.node_metrics(node, by_node.get(node.name, ()), now)
        for node in sorted(chosen, key=lambda node: node.name)
    ]
    return _encoded(asked, "NodeMetrics", found)


def _ordered(pods: Iterable[PodReport]) -> list[PodReport]:
    return sorted(pods, key=lambda each: (each.pod.namespace, each.pod.name))


def _encoded(asked: Asked, kind: str, found: Sequence[Mapping[str, Any]]) -> Answer:
    if not asked.name:
        return Answer(200, documents.many(kind, found))
    if not found:
        name = f"{asked.namespace}/{asked.name}" if asked.namespace else asked.name
        return _status(404, "NotFound", f'{asked.plural}.{GROUP} "{name}" not found')
    return Answer(200, documents.one(kind, found[0]))


def _selection(query: Mapping[str, str]) -> Callable[[Described], bool]:
    try:
        labels = parse_selector(_bounded(query, "labelSelector"))
        fields = [_field(term) for term in _bounded(query, "fieldSelector").split(",") if term]
    except InvalidSelector as error:
        raise Unserved(_status(400, "BadRequest", str(error))) from error
    if max(len(labels.expressions), len(fields)) > MAX_REQUIREMENTS:
        many = f"a selector has more than {MAX_REQUIREMENTS} requirements; use fewer"
        raise Unserved(_status(400, "BadRequest", many))

    def selects(described: Described) -> bool:
        return labels.matches(described.labels or {}) and all(
            (getattr(described, name) == value) == equal for name, value, equal in fields
        )

    return selects


def _bounded(query: Mapping[str, str], name: str) -> str:
    text = query.get(name, "")
    if len(text) > MAX_SELECTOR:
        raise InvalidSelector(f"{name}: longer than {MAX_SELECTOR} characters; select by fewer values")
    return text


def _field(term: str) -> tuple[str, str, bool]:
    equal = "!=" not in term
    key, separator, value = term.replace("==", "=").partition("=" if equal else "!=")
    if not separator or key not in _FIELDS:
        raise InvalidSelector(f"field selector: {term!r} is not supported; select by {' or '.join(_FIELDS)}")
    return _FIELDS[key], value, equal


def _missing_page() -> Answer:
    return _status(404, "NotFound", "the server could not find the requested resource")


def _status(code: int, reason: str, message: str) -> Answer:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return Answer(
        code, msgspec.json.encode({**status, "message": message, "reason": reason, "code": code}) + b"\n"
    )


def unavailable() -> Answer:
    """Return the answer if the control plane does not list its nodes: 503."""
    return _status(503, "ServiceUnavailable", "usage cannot be read at present; try again later")


def forbidden() -> Answer:
    """Return the answer to a caller who is not the tenant's kube-apiserver."""
    return _status(403, "Forbidden", "only the control plane's own requests are served")
