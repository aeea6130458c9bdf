"""Computes how long a failed item waits before it is retried. Pure."""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from zlib import crc32

_MOST_DOUBLINGS = 64  # any cap is reached before; more could overflow a float


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with deterministic jitter.

    Attributes:
        base: Seconds of the first delay.
        cap: Most seconds of a delay.
        jitter: Largest share (0..1) by which a delay is shortened, so that items that fail together are not retried
            together.

    Raises:
        ValueError: A field is out of range.
    """

    base: float = 0.25
    cap: float = 120.0
    jitter: float = 0.25

    def __post_init__(self) -> None:
        if not (0 < self.base < math.inf):
            raise ValueError(f"base must be a positive number of seconds, not {self.base}")
        if not (self.base <= self.cap < math.inf):
            raise ValueError(f"cap must be a number of seconds not below base ({self.base}), not {self.cap}")
        if not (0 <= self.jitter <= 1):
            raise ValueError(f"jitter must be a share between 0 and 1, not {self.jitter}")

    def delay(self, group: str, item: Hashable, failures: int) -> float:
        """Return the seconds to wait after `failures` in a row (1 or more): base * 2^(failures-1), at most cap.

        The jitter is derived from the arguments (and the `repr` of the item), so it is the same in every run.
        """
        full = min(self.base * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), self.cap)
        seed = crc32(f"{group}\0{item!r}\0{failures}".encode("utf-8", "surrogatepass"))
        return full * (1.0 - self.jitter * seed / 2**32)
