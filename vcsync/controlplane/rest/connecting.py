"""What a request that connects to something asks for, as an object: PodExecOptions and their like. Pure."""

from collections.abc import Mapping

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.resources import Subresource
from vcsync.controlplane.rest.requestinfo import Query, truth

CONNECTS = frozenset({"exec", "attach", "portforward", "proxy"})
FLAGS = ("stdin", "stdout", "stderr", "tty")
TEXTS: Mapping[str, tuple[str, ...]] = {"exec": ("container",), "attach": ("container",)}


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
        ports = [int(each) for text in query.get("ports", ()) for each in text.split(",") if each.isdigit()]
        return {**options, "ports": ports} if ports else options
    options |= {each: True for each in FLAGS if truth(query.get(each, ()))}
    options |= {each: query[each][0] for each in TEXTS.get(name, ()) if query.get(each)}
    if name == "exec":
        options["command"] = list(query.get("command", ())) or None
    return options
