"""Caches the results of functions of short texts. Long texts, which tenants may send, are never cached."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar, TypeVarTuple

Ts = TypeVarTuple("Ts")
T = TypeVar("T")


def cache_short_texts(most: int, longest: int) -> Callable[[Callable[[*Ts], T]], Callable[[*Ts], T]]:
    """Return a decorator that caches the most recently used results of a function.

    Args:
        most: Number of cached results.
        longest: Length of all texts together, in characters or bytes, up to which the result is cached.
    """

    def decorator(function: Callable[[*Ts], T]) -> Callable[[*Ts], T]:
        cached = lru_cache(most)(function)

        @wraps(function)
        def wrapper(*args: *Ts) -> T:
            size = 0
            for each in args:
                if isinstance(each, (str, bytes)):
                    size += len(each)
            return cached(*args) if size <= longest else function(*args)

        return wrapper

    return decorator
