"""Reproducible random values: derived from a seed and their purpose. Pure."""

import hashlib
import math

from msgspec import Struct


class Latency(Struct, frozen=True):
    """A duration in seconds: half of the values are below `median`, one in a hundred is above `p99`."""

    median: float = 0.0
    p99: float = 0.0

    def draw(self, seed: int, *what: object) -> float:
        """Draw a duration: log-normal."""
        if self.median <= 0:
            return 0.0
        spread = math.log(max(self.p99, self.median) / self.median) / _P99
        return self.median * math.exp(spread * _normal(seed, *what))


_P99 = 2.3263478740408408
"""Standard deviations below which 99 of 100 values are."""


def share(seed: int, *what: object) -> float:
    """Return a number from 0 to 1, uniformly distributed, the same for the same arguments."""
    digest = hashlib.blake2b(repr((seed, *what)).encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


def _normal(seed: int, *what: object) -> float:
    radius = math.sqrt(-2 * math.log(max(share(seed, *what, "radius"), 1e-12)))
    return radius * math.cos(2 * math.pi * share(seed, *what, "angle"))
