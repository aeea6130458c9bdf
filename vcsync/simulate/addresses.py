"""Addresses of Pods: each node has a range in 10.0.0.0/8, and each Pod gets the lowest free address of its node's range. Pure."""

NETWORK = 10 << 24
NETWORKS = 256
"""Number of possible starts of a cluster's ranges in 10.0.0.0/8: 10.N.0.0."""
ALL = 1 << 24
"""Number of available addresses."""


def network_of(number: int) -> int:
    """Return the start of the ranges of the cluster with this number, as far from earlier ones as possible.

    The starts are 1, 129, 65, 193, 33 and so on: with 128 addresses for each node the first eight clusters have
    room for 15,872 nodes each. 0 is the last one, because embedded control planes give Services their addresses there. More
    than 256 clusters share ranges.
    """
    return (int(f"{number % NETWORKS:08b}"[::-1], 2) + 1) % NETWORKS


class Addresses:
    """Assigns addresses. With more nodes than ranges, nodes share them.

    Args:
        per_node: Pods per node.
        network: start of the first node's range: 10.NETWORK.0.0. With different starts, no two Pods of two clusters
            have the same address.
    """

    def __init__(self, per_node: int, network: int = 0) -> None:
        self._size = 1 << max(per_node + 2, 8).bit_length()
        self._first = (network << 16) & ~(self._size - 1)
        # Used addresses of each range, one bit each.
        self._taken: dict[int, int] = {}
        self._held: dict[str, int] = {}

    def range_of(self, node: int) -> str:
        """Return a node's range, in CIDR notation."""
        start = self._start(node)
        return f"{_written(NETWORK + start)}/{32 - (self._size - 1).bit_length()}"

    def hold(self, uid: str, address: str) -> None:
        """Record the address that a Pod already has."""
        try:
            numbers = [int(each) for each in address.split(".")]
        except ValueError:
            return
        if uid in self._held or len(numbers) != 4 or numbers[0] != NETWORK >> 24:
            return
        self._mark(uid, int.from_bytes(bytes(number & 255 for number in numbers)) - NETWORK)

    def take(self, uid: str, node: int) -> str:
        """Return the address of a Pod on a node; its current one if it has one."""
        held = self._held.get(uid)
        if held is None:
            start = self._start(node)
            # The first address is that of the network.
            free = ~self._taken.get(start, 1)
            held = start + (free & -free).bit_length() - 1
            self._mark(uid, held)
        return _written(NETWORK + held)

    def free(self, uid: str) -> None:
        """Free a Pod's address."""
        held = self._held.pop(uid, None)
        if held is not None:
            start = held & ~(self._size - 1)
            self._taken[start] = self._taken.get(start, 1) & ~(1 << held - start)

    def _mark(self, uid: str, number: int) -> None:
        self._held[uid] = number
        start = number & ~(self._size - 1)
        self._taken[start] = self._taken.get(start, 1) | 1 << number - start

    def _start(self, node: int) -> int:
        return (self._first + node * self._size) % ALL


def _written(number: int) -> str:
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
