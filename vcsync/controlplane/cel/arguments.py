"""Functions that check what they are given. Pure."""

import functools
from collections.abc import Callable
from typing import Any

from vcsync.controlplane.cel.values import NoOverload, Work

Function = Callable[..., Any]
"""Takes the work that is left, then the arguments, target first."""


def of_types(*types: type) -> Callable[[Function], Function]:
    """Check the types of arguments; booleans are no integers, and a function may take fewer arguments than types."""

    def wrap(function: Function) -> Function:
        @functools.wraps(function)
        def checked(work: Work, *args: Any) -> Any:
            for value, type_ in zip(args, types, strict=False):
                if not isinstance(value, type_) or (type_ is int and isinstance(value, bool)):
                    raise NoOverload
            return function(work, *args)

        return checked

    return wrap


def of_texts(check: Callable[[str, str], Any]) -> Function:
    """Make a function of two texts."""
    return of_types(str, str)(lambda _, text, other: check(text, other))


def of_text(change: Callable[[str], Any]) -> Function:
    """Make a function of one text."""
    return of_types(str)(lambda _, text: change(text))
