"""Chance that is the same every time: drawn from a seed and what it is drawn for. Pure."""

import hashlib
import math

from msgspec import Struct


class Latency(Struct, frozen=True):
    """How long something takes: half of the times less than `median`, one in a hundred more than `p99`. Seconds."""

    median: float = 0.0
    p99: float = 0.0

    def draw(self, seed: int, *what: object) -> float:
        """Return how long it takes this time: log-normal."""
        if self.median <= 0:
            return 0.0
        spread = math.log(max(self.p99, self.median) / self.median) / _P99
        return self.median * math.exp(spread * _normal(seed, *what))


_P99 = 2.3263478740408408
"""Standard deviations below which 99 of 100 draws are."""


def share(seed: int, *what: object) -> float:
    """Return a number from 0 to 1, evenly distributed, the same for the same arguments."""
    digest = hashlib.blake2b(repr((seed, *what)).encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


def _normal(seed: int, *what: object) -> float:
    radius = math.sqrt(-2 * math.log(max(share(seed, *what, "radius"), 1e-12)))
    return radius * math.cos(2 * math.pi * share(seed, *what, "angle"))
