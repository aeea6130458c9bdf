"""What was worked out lately of a short text is not worked out again; of long ones, which tenants may write, nothing is kept."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

S = TypeVar("S", str, bytes)
T = TypeVar("T")


def lately(most: int, longest: int) -> Callable[[Callable[[S], T]], Callable[[S], T]]:
    """Return what has a function remember its last results.

    Args:
        most: how many results.
        longest: length up to which a text is kept with its result.
    """

    def remembering(work: Callable[[S], T]) -> Callable[[S], T]:
        remembered = lru_cache(most)(work)

        @wraps(work)
        def ask(text: S) -> T:
            return remembered(text) if len(text) <= longest else work(text)

        return ask

    return remembering
