"""Answers for requests that a super cluster refuses, or that do not reach it. They name nothing of that cluster. Pure."""

from dataclasses import dataclass

import msgspec

from vcsync.patterns.linear import linear

_PASSED_ON = linear(
    r"(?:Internal error occurred: )?(?:unable to upgrade connection: )?(?P<message>"
    r"container not found \(\"[-a-z0-9]+\"\)"
    r"|(?:previous terminated )?container \"[-a-z0-9]+\" in pod \"[-.a-z0-9]+\" (?:not found|is not available|is terminated)"
    r"|container \"[-a-z0-9]+\" in pod \"[-.a-z0-9]+\" is waiting to start"
    r"(?:: trying and failing to pull image|: image can't be pulled|: [A-Za-z]+| - no logs yet)"
    r"|pod does not exist)\s*"
)
"""Messages of kubelets that are passed on, because they name nothing but the tenant's own Pod."""
_UNREACHED = linear(
    r"(?s)error trying to reach service: (?P<reason>EOF|dial tcp \S+: (?P<dial>connect: [a-z ]+|i/o timeout)|.*)"
)
"""Message of an API server that cannot reach a port of a Pod. Addresses may be those of its own machines."""
_MAX_DIGITS = 3


@dataclass(eq=False)
class Refused(Exception):
    """A request for a log or a stream is not served.

    Attributes:
        code: HTTP status code for the client.
        message: Why, without anything about the super cluster but its id.
        of_kubelet: Whether the message is that of a kubelet.
    """

    code: int
    message: str
    of_kubelet: bool = False

    def __str__(self) -> str:
        return self.message


def not_there(pod: str) -> Refused:
    """Return the answer for a Pod that no super cluster runs for this tenant: 404, whatever the reason."""
    return Refused(404, f'pod "{pod}" does not exist on its node')


def unreachable(super_id: str) -> Refused:
    """Return the answer for a super cluster that cannot be reached: 503, without its address."""
    return Refused(503, f"super cluster {super_id} cannot be reached at present; try again later")


def not_permitted(super_id: str) -> Refused:
    """Return the answer for a super cluster that does not permit the request: 503, since the tenant may not be blamed."""
    return Refused(
        503, f"super cluster {super_id} does not permit logs, exec, attach and port-forward; ask its operator"
    )


def too_many() -> Refused:
    """Return the answer for one stream too many of a tenant: 429."""
    return Refused(429, "too many streams are open, please try again later")


def compressed() -> Refused:
    """Return the answer for a page that a program has compressed although the request does not accept it: 502."""
    return Refused(502, "the program compresses its page unasked, so that its links cannot be translated")


def too_late() -> Refused:
    """Return the answer for a program that does not answer: 504."""
    return Refused(504, "the program in the Pod has not answered in time")


def failed(super_id: str) -> str:
    """Return the message in place of one that names nodes and addresses of a super cluster."""
    return f"super cluster {super_id} did not serve the request; ask its operator"


class _Status(msgspec.Struct):
    message: str = ""
    kind: str = ""
    code: int = 0


def refusal(super_id: str, status: int, body: str, pod: str) -> Refused:
    """Return the answer for a refusal of a super cluster's API server.

    Args:
        super_id: Id of the super cluster.
        status: HTTP status of its answer.
        body: Beginning of the answer's body.
        pod: Name of the Pod.
    """
    if status in {401, 403}:
        return not_permitted(super_id)
    try:
        message = msgspec.json.decode(body, type=_Status).message
    except msgspec.MsgspecError:
        message = body
    known = _PASSED_ON.fullmatch(message.strip())
    if known is not None:
        return Refused(status, known["message"], of_kubelet=True)
    if status == 404:
        return not_there(pod)
    if status == 429:
        return Refused(429, f"super cluster {super_id} is busy, please try again later")
    code = status if len(str(status)) == _MAX_DIGITS and 400 <= status < 600 else 502
    return Refused(code, f"super cluster {super_id} did not serve the request: status {status}")


def proxy_refusal(super_id: str, status: int, body: str, pod: str, namespace: str) -> Refused | None:
    """Return the answer for a request for a port of a Pod that a super cluster's API server refuses.

    Programs in Pods may answer with a Status as well; only what names the super namespace, or is about the credentials or the
    Pod's address, is taken for an answer of the API server.

    Args:
        super_id: Id of the super cluster.
        status: HTTP status of the answer, 400 or higher.
        body: Beginning of the answer's body.
        pod: Name of the Pod.
        namespace: Super namespace.

    Returns:
        The answer, or None if a program of the tenant has given it.
    """
    try:
        found = msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError:
        found = _Status()
    is_status = found.kind == "Status" and found.code == status
    unreached = _UNREACHED.fullmatch(found.message) if is_status and status == 503 else None
    if unreached is not None:
        reason = unreached["dial"] or ("EOF" if unreached["reason"] == "EOF" else failed(super_id))
        return Refused(503, f"error trying to reach service: {reason}")
    if is_status and status == 401 and found.message == "Unauthorized":
        return not_permitted(super_id)
    if namespace not in body and not (is_status and found.message == f'pods "{pod}" not found'):
        return None
    if not is_status:
        return Refused(502, failed(super_id))
    return refusal(super_id, status, body, pod)
