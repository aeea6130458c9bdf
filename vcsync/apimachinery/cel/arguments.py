"""Decorators that check the arguments of CEL functions. Pure."""

import functools
from collections.abc import Callable
from typing import Any

from vcsync.apimachinery.cel.values import CelError, NoOverload, Work

Function = Callable[..., Any]
"""(remaining work, arguments with the target first) -> result."""


def of_types(*types: type) -> Callable[[Function], Function]:
    """Check the types of arguments. Booleans are not integers. Calls may have fewer arguments than types."""

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
    """Return a CEL function that takes two strings."""
    return of_types(str, str)(lambda _, text, other: check(text, other))


def of_text(change: Callable[[str], Any]) -> Function:
    """Return a CEL function that takes one string."""
    return of_types(str)(lambda _, text: change(text))


def succeeds(parse: Function) -> Function:
    """Return a CEL function that tells whether another one has a value for the same arguments."""

    def check(work: Work, *args: Any) -> bool:
        try:
            parse(work, *args)
        except NoOverload:
            raise
        except CelError:
            return False
        return True

    return check
