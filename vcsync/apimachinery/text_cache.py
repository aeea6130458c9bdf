"""Caches the results of functions of short texts. Long texts, which tenants may send, are never cached."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

S = TypeVar("S", str, bytes)
T = TypeVar("T")


def cache_short_texts(most: int, longest: int) -> Callable[[Callable[[S], T]], Callable[[S], T]]:
    """Return a decorator that caches the most recently used results of a function.

    Args:
        most: Number of cached results.
        longest: Length, in characters or bytes, up to which the result for a text is cached.
    """

    def decorator(function: Callable[[S], T]) -> Callable[[S], T]:
        cached = lru_cache(most)(function)

        @wraps(function)
        def wrapper(text: S) -> T:
            return cached(text) if len(text) <= longest else function(text)

        return wrapper

    return decorator
