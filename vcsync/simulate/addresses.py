"""The addresses of Pods: each node has a range of 10.0.0.0/8, and a Pod the lowest free one of its node's. Pure."""

NETWORK = 10 << 24
NETWORKS = 256
"""Places in 10.0.0.0/8 where a cluster's ranges may begin: 10.N.0.0."""
ALL = 1 << 24
"""Addresses that there are."""


def network_of(number: int) -> int:
    """Return where the ranges of the cluster of that number begin, as far from those before it as can be.

    The first is at 0, then come 128, 64, 192, 32 and so on: with 128 addresses for each node the first eight clusters have
    room for 16,384 nodes each. Beyond 256 clusters they share.
    """
    return int(f"{number % NETWORKS:08b}"[::-1], 2)


class Addresses:
    """Who has which address. With more nodes than there are ranges, nodes share them.

    Args:
        per_node: Pods that a node takes.
        network: where the first node's range begins: 10.NETWORK.0.0. That of another cluster lets no two of their Pods
            have one address.
    """

    def __init__(self, per_node: int, network: int = 0) -> None:
        self._size = 1 << max(per_node + 2, 8).bit_length()
        self._first = (network << 16) & ~(self._size - 1)
        self._taken: dict[int, int] = {}  # by range: its addresses, a bit for each
        self._held: dict[str, int] = {}

    def range_of(self, node: int) -> str:
        """Return a node's range, as CIDR."""
        start = self._start(node)
        return f"{_written(NETWORK + start)}/{32 - (self._size - 1).bit_length()}"

    def hold(self, uid: str, address: str) -> None:
        """Take note of the address that a Pod has already."""
        try:
            numbers = [int(each) for each in address.split(".")]
        except ValueError:
            return
        if uid in self._held or len(numbers) != 4 or numbers[0] != NETWORK >> 24:
            return
        self._mark(uid, int.from_bytes(bytes(number & 255 for number in numbers)) - NETWORK)

    def take(self, uid: str, node: int) -> str:
        """Return the address of a Pod on a node, its own if it has one."""
        held = self._held.get(uid)
        if held is None:
            start = self._start(node)
            free = ~self._taken.get(start, 1)  # the first address is the network's
            held = start + (free & -free).bit_length() - 1
            self._mark(uid, held)
        return _written(NETWORK + held)

    def free(self, uid: str) -> None:
        """Let a Pod's address be given to others."""
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
