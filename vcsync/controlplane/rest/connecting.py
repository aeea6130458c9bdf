"""What a request that connects to something asks for, as an object: PodExecOptions and their like. Pure."""

from collections.abc import Mapping

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError, bad_request
from vcsync.controlplane.resources import Subresource
from vcsync.controlplane.rest.paging import parse_number
from vcsync.controlplane.rest.requestinfo import Query, truth

PORT_BITS = 16
CONNECTS = frozenset({"exec", "attach", "portforward", "proxy"})
FLAGS = ("stdin", "stdout", "stderr", "tty")
TEXTS: Mapping[str, tuple[str, ...]] = {"exec": ("container",), "attach": ("container",)}


def asked_ports(query: Query) -> list[int]:
    """Return the ports that are to be forwarded.

    Raises:
        StatusError: 400, one is no number of 16 bits, in the words of apimachinery's conversion.
    """
    texts = [each for text in query.get("ports", ()) for each in text.split(",")]
    try:
        return [parse_number(each, PORT_BITS) for each in texts]
    except StatusError as why:
        raise bad_request(f"cannot convert to []int32: {why.message}") from None


def connect_options(subresource: Subresource, query: Query, path: str) -> Object:
    """Return the options of a connection.

    Args:
        subresource: through which.
        query: of the request.
        path: what follows the subresource in the request's path, with its slash.
    """
    options: Object = {"kind": subresource.kind, "apiVersion": subresource.version}
    name = subresource.name
    if name == "proxy":
        return {**options, "path": path} if path else options
    if name == "portforward":
        ports = asked_ports(query)
        return {**options, "ports": ports} if ports else options
    options |= {each: True for each in FLAGS if truth(query.get(each, ()))}
    options |= {each: query[each][0] for each in TEXTS.get(name, ()) if query.get(each)}
    if name == "exec":
        options["command"] = list(query.get("command", ())) or None
    return options
