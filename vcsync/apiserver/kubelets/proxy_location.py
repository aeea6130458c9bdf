"""Determines the Pod and port to which a request for the subresource `proxy` of a Pod or Service goes. Pure.

Behaviour: Kubernetes' `pkg/registry/core/pod/strategy.go` and `pkg/registry/core/service/storage/storage.go`
(ResourceLocation), and apimachinery's `pkg/util/net/port_split.go`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from msgspec import Struct

from vcsync.apimachinery import errors
from vcsync.patterns.linear import linear

SCHEMES = frozenset({"", "http", "https"})
PORT = linear(r"[a-zA-Z0-9-]*")
"""Numbers and names of ports. Anything else would not be a port in the URL that a super cluster makes of it."""
MAX_DIGITS = 18
_Item = TypeVar("_Item")


class ProxyTarget(NamedTuple):
    """The name in the URL of a request.

    Attributes:
        scheme: `http`, `https`, or empty for http.
        name: Name of the Pod or Service.
        port: Number or name of the port. Empty: the first one.
    """

    scheme: str
    name: str
    port: str

    @property
    def text(self) -> str:
        """The name as a URL has it."""
        if self.scheme:
            return f"{self.scheme}:{self.name}:{self.port}"
        return f"{self.name}:{self.port}" if self.port else self.name


class PodAddress(NamedTuple):
    """A port of a Pod that serves a Service.

    Attributes:
        pod: Name of the Pod.
        ip: Address of the Pod.
        port: Number of the port.
    """

    pod: str
    ip: str
    port: int


class _ServicePort(Struct, frozen=True):
    name: str = ""
    port: int = 0


class _ServiceSpec(Struct, frozen=True):
    ports: tuple[_ServicePort, ...] | None = None


class ServicePorts(Struct, frozen=True):
    """The fields of a Service that name its ports."""

    spec: _ServiceSpec = _ServiceSpec()


class _Reference(Struct, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""


class _Address(Struct, frozen=True, rename="camel"):
    ip: str = ""
    target_ref: _Reference | None = None


class _Subset(Struct, frozen=True):
    addresses: tuple[_Address, ...] | None = None
    ports: tuple[_ServicePort, ...] | None = None


class ServiceEndpoints(Struct, frozen=True):
    """The fields of Endpoints that name the Pods of a Service."""

    subsets: tuple[_Subset, ...] | None = None


class _PodIP(Struct, frozen=True):
    ip: str = ""


class _PodStatus(Struct, frozen=True, rename={"pod_ips": "podIPs"}):
    pod_ips: tuple[_PodIP, ...] | None = None


class PodAddresses(Struct, frozen=True):
    """The fields of a Pod that name its addresses."""

    status: _PodStatus = _PodStatus()

    def has(self, ip: str) -> bool:
        """Tell whether an address is one of the Pod's."""
        return any(each.ip == ip for each in self.status.pod_ips or ())


def proxy_target(name: str, what: str) -> ProxyTarget:
    """Return the target that a name in a URL names: `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.

    Args:
        name: The name.
        what: `pod` or `service`, for the error.

    Raises:
        StatusError: 400.
    """
    match name.split(":"):
        case [only]:
            target = ProxyTarget("", only, "")
        case [first, port]:
            target = ProxyTarget("", first, port)
        case [scheme, first, port]:
            target = ProxyTarget(scheme, first, port)
        case _:
            target = ProxyTarget("", "", "")
    if not target.name or target.scheme not in SCHEMES or not PORT.fullmatch(target.port):
        raise errors.bad_request(f'invalid {what} request "{name}"')
    return target


def service_port(service: ServicePorts, target: ProxyTarget) -> str:
    """Return the name of a Service's port, which Endpoints use.

    Raises:
        StatusError: 503, the Service has no port with the given number.
    """
    number = port_number(target.port)
    if number is None:
        return target.port
    for each in service.spec.ports or ():
        if each.port == number:
            return each.name
    raise errors.unavailable(f'no service port {number} found for service "{target.name}"')


def service_addresses(
    endpoints: ServiceEndpoints, namespace: str, port_name: str, choose: Callable[[int], int]
) -> Iterator[PodAddress]:
    """Yield the Pods that serve a port of a Service, in the order in which they are tried.

    Args:
        endpoints: Endpoints of the Service.
        namespace: Their namespace.
        port_name: Name of the port.
        choose: Returns a number below its argument: the subset and the address to begin with.
    """
    for subset in _rotated(endpoints.subsets or (), choose):
        for port in subset.ports or ():
            if port.name != port_name:
                continue
            for address in _rotated(subset.addresses or (), choose):
                reference = address.target_ref
                if reference is not None and reference.namespace == namespace:
                    yield PodAddress(reference.name, address.ip, port.port)


def no_endpoints(name: str) -> errors.StatusError:
    """Return the answer if no Pod serves a Service: 503."""
    return errors.unavailable(f'no endpoints available for service "{name}"')


def port_number(text: str) -> int | None:
    """Return a number as Go's ParseInt reads it, or None if the text is the name of a port."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS else None


def _rotated(items: Sequence[_Item], choose: Callable[[int], int]) -> Sequence[_Item]:
    begin = choose(len(items)) if items else 0
    return [*items[begin:], *items[:begin]]
