"""Determines the super cluster of a tenant's Pod, the request to that cluster's API server, and the answers to refusals. Pure.

Whatever a tenant can write only chooses among its own Pods: the namespace follows from the tenant's record, and the Pod there
must name the tenant's Pod as its origin.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

import msgspec

from vcsync.api import names
from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.kubelets.location import STREAMS, PodPlace, container_of
from vcsync.apiserver.request.connect_options import asked_ports
from vcsync.apiserver.request.request_info import Query, truth

_SAID = re.compile(
    r"(?:Internal error occurred: )?(?:unable to upgrade connection: )?(?P<said>"
    r"container not found \(\"[-a-z0-9]+\"\)"
    r"|(?:previous terminated )?container \"[-a-z0-9]+\" in pod \"[-.a-z0-9]+\" (?:not found|is not available|is terminated)"
    r"|container \"[-a-z0-9]+\" in pod \"[-.a-z0-9]+\" is waiting to start"
    r"(?:: trying and failing to pull image|: image can't be pulled|: [A-Za-z]+| - no logs yet)"
    r"|pod does not exist)\s*"
)
"""Messages of kubelets that are passed on, because they name nothing but the tenant's own Pod."""
_MAX_DIGITS = 3


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A request for the log or a stream of a Pod.

    Attributes:
        pod: Name of the Pod.
        uid: UID of the tenant's Pod.
        node: The tenant's name of the Pod's node. Empty: it has none yet.
        action: Subresource: `log`, `exec`, `attach` or `portforward`.
        query: Percent-encoded query without the question mark.
    """

    pod: str
    uid: str
    node: str
    action: str
    query: str

    @property
    def super_id(self) -> str:
        """Id of the super cluster that the node's name names, or an empty text if it names none."""
        node, _, super_id = self.node.rpartition(".")
        return super_id if node and names.valid_super_id(super_id) else ""


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


def not_there(pod: str) -> StatusError:
    """Return the answer for a Pod that no super cluster runs for this tenant: 404, whatever the reason."""
    return StatusError(
        404,
        "NotFound",
        f'pod "{pod}" does not exist on its node',
        {"name": pod, "kind": "pods"},
    )


def unreachable(super_id: str) -> StatusError:
    """Return the answer for a super cluster that cannot be reached: 503, without its address.

    There is no Retry-After, with which client-go would try again ten times before it shows the error.
    """
    return errors.unavailable(f"super cluster {super_id} cannot be reached at present; try again later")


def refused(super_id: str) -> StatusError:
    """Return the answer for a super cluster that does not permit the request: 503, since the tenant may not be blamed."""
    return errors.unavailable(
        f"super cluster {super_id} does not permit logs, exec, attach and port-forward; ask its operator"
    )


def pool_unknown() -> StatusError:
    """Return the answer if the meta cluster cannot be read: 503."""
    return errors.unavailable("where this Pod runs cannot be read at present; try again later")


def failed(super_id: str) -> str:
    """Return the message in place of one that names nodes and addresses of a super cluster."""
    return f"super cluster {super_id} did not serve the request; ask its operator"


class _Status(msgspec.Struct):
    message: str = ""


def refusal(super_id: str, status: int, body: str, pod: str) -> StatusError:
    """Return the answer for a refusal of a super cluster's API server, which names nothing of that cluster.

    Args:
        super_id: Id of the super cluster.
        status: HTTP status of its answer.
        body: Beginning of the answer's body.
        pod: Name of the Pod.
    """
    if status in {401, 403}:
        return refused(super_id)
    try:
        message = msgspec.json.decode(body, type=_Status).message
    except msgspec.MsgspecError:
        message = body
    known = _SAID.fullmatch(message.strip())
    if known is not None:
        said = known["said"]
        if status == 400:
            return errors.bad_request(said)
        return errors.internal(said) if status >= 500 else StatusError(status, "NotFound", said)
    if status == 404:
        return not_there(pod)
    if status == 429:
        return errors.too_many_requests(f"super cluster {super_id} is busy, please try again later", 1)
    code = status if len(str(status)) == _MAX_DIGITS and 400 <= status < 600 else 502
    return StatusError(
        code,
        "InternalError" if code >= 500 else "BadRequest",
        f"super cluster {super_id} did not serve the request: status {status}",
    )
