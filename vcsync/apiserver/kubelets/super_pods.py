"""Determines the super cluster of a tenant's Pod, the request to that cluster's API server, and the answers to refusals. Pure.

Whatever a tenant can write only chooses among its own Pods: the namespace follows from the tenant's record, and the Pod there
must name the tenant's Pod as its origin.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from vcsync.api import names
from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.kubelets.location import STREAMS, PodPlace, container_of
from vcsync.apiserver.request.connect_options import asked_ports
from vcsync.apiserver.request.request_info import Query, truth
from vcsync.streams.refusals import Refused

_REASONS = {404: "NotFound", 429: "TooManyRequests", 503: "ServiceUnavailable", 504: "Timeout"}


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A request for the log, a stream or a port of a Pod.

    Attributes:
        pod: Name of the Pod.
        uid: UID of the tenant's Pod.
        node: The tenant's name of the Pod's node. Empty: it has none yet.
        action: Subresource: `log`, `exec`, `attach`, `portforward` or `proxy`.
        query: Percent-encoded query without the question mark.
        target: Name of the Pod as a URL for `proxy` has it, with scheme and port. Empty: the name alone.
        path: Percent-encoded path after the subresource.
        body: Body of the request.
        shown: Path up to the subresource that the client of a request for `proxy` has used.
    """

    pod: str
    uid: str
    node: str
    action: str
    query: str
    target: str = ""
    path: str = ""
    body: bytes = b""
    shown: str = ""

    @property
    def super_id(self) -> str:
        """Id of the super cluster that the node's name names, or an empty text if it names none."""
        return names.super_cluster_of_node(self.node)


def log_request(
    pod: PodPlace, name: str, container: str, options: Sequence[tuple[str, str]]
) -> StreamRequest:
    """Return the request for the log of a container.

    Args:
        pod: The tenant's Pod.
        name: Name of the Pod.
        container: Name of the container. Empty: the only one.
        options: Parameters from `log_options`.

    Raises:
        StatusError: 400 if the Pod has no such container.
    """
    chosen = container_of(pod, name, container)
    query = urlencode([("container", chosen), *options])
    return StreamRequest(name, pod.metadata.uid, pod.spec.node_name, "log", query)


def stream_request(pod: PodPlace, name: str, action: str, query: Query) -> StreamRequest:
    """Return the request for exec, attach or port-forward.

    Args:
        pod: The tenant's Pod.
        name: Name of the Pod.
        action: Subresource of the request.
        query: Query of the request.

    Raises:
        StatusError: 400 if the Pod has no such container or no node.
    """
    if action == "portforward":
        parameters = [("ports", str(each)) for each in asked_ports(query)]
    else:
        container = container_of(pod, name, (query.get("container") or ("",))[0])
        parameters = [("container", container)]
        parameters += [(each, "true") for each in STREAMS[action] if truth(query.get(each, ()))]
        if action == "exec":
            parameters += [("command", each) for each in query.get("command", ())]
    if not pod.spec.node_name:
        raise errors.bad_request(f"pod {name} does not have a host assigned")
    return StreamRequest(name, pod.metadata.uid, pod.spec.node_name, action, urlencode(parameters))


def is_copy(annotations: Mapping[str, str], key: str, namespace: str, uid: str) -> bool:
    """Tell whether a Pod of a super cluster is the copy of a tenant's Pod.

    Args:
        annotations: Annotations of the super cluster's Pod.
        key: Cluster key of the tenant.
        namespace: Namespace of the tenant's Pod.
        uid: UID of the tenant's Pod.
    """
    stated = tuple(annotations.get(each, "") for each in (names.CLUSTER, names.NAMESPACE, names.UID))
    return all(stated) and stated == (key, namespace, uid)


def pool_unknown() -> StatusError:
    """Return the answer if the meta cluster cannot be read: 503."""
    return errors.unavailable("where this Pod runs cannot be read at present; try again later")


def refused(answer: Refused, pod: str) -> StatusError:
    """Return the Status of an answer that refuses a request for a Pod.

    An answer with the code 503 has no Retry-After, with which client-go would try again ten times before it shows the error.
    """
    if answer.code >= 500 and answer.of_kubelet:
        return errors.internal(answer.message)
    reason = _REASONS.get(answer.code, "InternalError" if answer.code >= 500 else "BadRequest")
    details = {"name": pod, "kind": "pods"} if answer.code == 404 and not answer.of_kubelet else {}
    retry_after = 1 if answer.code == 429 else None
    return StatusError(answer.code, reason, answer.message, details, retry_after=retry_after)
