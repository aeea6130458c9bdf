"""The options of connect requests as objects, such as PodExecOptions. Pure."""

from collections.abc import Mapping

from vcsync.apimachinery.errors import StatusError, bad_request
from vcsync.apimachinery.resources import Subresource
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.request.paging import parse_number
from vcsync.apiserver.request.request_info import Query, truth

PORT_BITS = 16
CONNECTS = frozenset({"exec", "attach", "portforward", "proxy"})
FLAGS = ("stdin", "stdout", "stderr", "tty")
TEXTS: Mapping[str, tuple[str, ...]] = {"exec": ("container",), "attach": ("container",)}


def asked_ports(query: Query) -> list[int]:
    """Return the ports of a port-forward request.

    Raises:
        StatusError: 400 with the message of apimachinery's conversion, a port is not a 16-bit number.
    """
    texts = [each for text in query.get("ports", ()) for each in text.split(",")]
    try:
        return [parse_number(each, PORT_BITS) for each in texts]
    except StatusError as why:
        raise bad_request(f"cannot convert to []int32: {why.message}") from None


def connect_options(subresource: Subresource, query: Query, path: str) -> Object:
    """Return the options of a connection.

    Args:
        subresource: The subresource.
        query: Parameters of the URL.
        path: Part of the request's path after the subresource, with its slash.
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
