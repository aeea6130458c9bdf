"""Requests of a kube-apiserver to a kubelet, as requests to the API server of a super cluster. Pure.

Paths and parameters: Kubernetes' `pkg/kubelet/server/server.go` and `pkg/kubelet/server/remotecommand/httpstream.go`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlencode

Parameters = Sequence[tuple[str, str]]

ACTIONS: Final = {"containerLogs": "log", "exec": "exec", "attach": "attach", "portForward": "portforward"}
"""First part of a kubelet's path -> subresource of Pods."""
MAX_PORTS: Final = 100
"""Most ports of a port-forward."""
_STREAMS: Final = {"input": "stdin", "output": "stdout", "error": "stderr", "tty": "tty"}
"""Parameter of kubelets -> parameter of the API."""
_LOG_OPTIONS: Final = frozenset(
    {"follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes", "stream"}
)
"""Parameters of logs, which have the same names in both."""


@dataclass(frozen=True, slots=True)
class KubeletRequest:
    """A request for the log or a stream of a tenant's Pod.

    Attributes:
        action: Subresource: `log`, `exec`, `attach` or `portforward`.
        namespace: Namespace of the Pod in the tenant.
        pod: Name of the Pod.
        query: Percent-encoded query for the API server of the super cluster.
    """

    action: str
    namespace: str
    pod: str
    query: str


def parse(path: str, query: Parameters) -> KubeletRequest | None:
    """Return the request that a path and a query name, or None if it is not among those that are served.

    Args:
        path: Percent-encoded path.
        query: Decoded parameters in order.
    """
    first, *names = path.removeprefix("/").split("/")
    action = ACTIONS.get(first, "")
    if not action or len(names) != (2 if action == "portforward" else 3):
        return None
    namespace, pod, *container = (unquote(each) for each in names)
    parameters = [("container", each) for each in container]
    if action == "log":
        parameters += [(key, value) for key, value in query if key in _LOG_OPTIONS]
    elif action == "portforward":
        ports = [port for key, value in query if key == "port" for port in value.split(",", MAX_PORTS)]
        if len(ports) > MAX_PORTS:
            return None
        parameters += [("ports", port) for port in ports]
    else:
        parameters += [(_STREAMS[key], "true") for key, value in query if key in _STREAMS and value == "1"]
    if action == "exec":
        parameters += [(key, value) for key, value in query if key == "command"]
    return KubeletRequest(action, namespace, pod, urlencode(parameters))
