"""Addresses of load balancers in a hollow cluster: one for each Service of that type, and one for Ingresses. Pure."""

from typing import Any

from msgspec import Struct, field

from vcsync.objects.envelope import Envelope, decode
from vcsync.simulate.chance import share

NETWORK = 198 << 24 | 18 << 16
ALL = 1 << 17
"""Number of addresses of 198.18.0.0/15, which is reserved for benchmarks."""


class _Spec(Struct, rename="camel"):
    type: str = ""
    load_balancer_class: str = ""
    load_balancer_ip: str = field(name="loadBalancerIP", default="")


class _Ingress(Struct):
    ip: str = ""


class _LoadBalancer(Struct):
    ingress: tuple[_Ingress, ...] | None = None


class _Status(Struct, rename="camel"):
    load_balancer: _LoadBalancer | None = None


class Balancers:
    """Assigns addresses.

    Args:
        seed: the same seed and names give the same addresses, as long as none is taken.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._held: dict[tuple[str, str], int] = {}
        self._taken: set[int] = set()

    def see(self, service: Envelope) -> None:
        """Record the address that a Service has."""
        for each in _addresses(service):
            number = _number(each) - NETWORK
            if 0 <= number < ALL and service.key not in self._held:
                self._held[service.key] = number
                self._taken.add(number)

    def forget(self, service: Envelope) -> None:
        """Free a Service's address."""
        number = self._held.pop(service.key, None)
        if number is not None:
            self._taken.discard(number)

    def report(self, service: Envelope) -> dict[str, Any] | None:
        """Return the desired status of a Service; None: it is already written."""
        spec, there = decode(service.spec, _Spec), _addresses(service)
        if spec.type != "LoadBalancer" or spec.load_balancer_class or service.deleting:
            self.forget(service)
            gone = there and spec.type != "LoadBalancer"
            return {"loadBalancer": None} if gone else None
        if there:
            return None
        address = spec.load_balancer_ip or self._take(service.key)
        return {"loadBalancer": {"ingress": [{"ip": address, "ipMode": "VIP"}]}}

    def ingress_address(self, network: int) -> str:
        """Return the address of the ingress controller. Clusters with different `network` have different ones."""
        number = (int(share(self._seed, "ingress controller") * ALL) + network) % ALL
        self._taken.add(number)
        return _text(number)

    def _take(self, key: tuple[str, str]) -> str:
        number = self._held.get(key)
        if number is None:
            number = int(share(self._seed, *key, "load balancer") * ALL)
            while number in self._taken and len(self._taken) < ALL:
                number = (number + 1) % ALL
            self._held[key] = number
            self._taken.add(number)
        return _text(number)


def _text(number: int) -> str:
    return ".".join(str((NETWORK + number) >> shift & 255) for shift in (24, 16, 8, 0))


def _addresses(service: Envelope) -> list[str]:
    balancer = decode(service.status, _Status).load_balancer
    return [each.ip for each in (balancer.ingress if balancer is not None else None) or () if each.ip]


def _number(address: str) -> int:
    parts = address.split(".")
    if len(parts) != 4 or not all(each.isascii() and each.isdigit() for each in parts):
        return 0
    return int.from_bytes(bytes(int(each) & 255 for each in parts))
