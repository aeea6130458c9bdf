"""Marks on the stack: they name whose work a thread runs, also for who can read nothing but the names of its functions.

A coroutine or function runs below a function whose name is the mark. A dump of the stacks that needs no lock of the interpreter
(`faulthandler`) thus shows the mark of what runs, and of nothing else, without any book-keeping between the steps of a task.
"""

import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from types import FrameType, FunctionType
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

_BEGIN, _TENANT, _END = "<vcsync ", " of tenant ", ">"
_MOST_MARKS = 4096
"""Marks to keep. Each has less than 1 KiB: the name in it is that of a tenant or a namespace, so at most 63 characters long."""


class Mark(NamedTuple):
    """The owner of some work.

    Attributes:
        kind: Kind of the work, such as `request` or the name of a controller.
        tenant: The tenant, or the cluster key of a tenant. Empty: nobody.
    """

    kind: str
    tenant: str

    @property
    def name(self) -> str:
        """The name of the function by which the stack shows it; `read` reads it."""
        return f"{_BEGIN}{self.kind}{_TENANT}{self.tenant}{_END}"


NOBODY = Mark("", "")


async def _await(work: Awaitable[Any], *what: object) -> Any:  # noqa: ARG001 - a watchdog reads it in the frame
    return await work


def _call(function: Callable[..., Any], *arguments: object, **named: object) -> Any:
    return function(*arguments, **named)


@lru_cache(_MOST_MARKS)
def _awaiting(kind: str, tenant: str) -> Callable[..., Awaitable[Any]]:
    return cast(
        "Callable[..., Awaitable[Any]]",
        FunctionType(_await.__code__.replace(co_name=Mark(kind, tenant).name), {}),
    )


@lru_cache(_MOST_MARKS)
def _calling(kind: str, tenant: str) -> Callable[..., Any]:
    return cast(
        "Callable[..., Any]", FunctionType(_call.__code__.replace(co_name=Mark(kind, tenant).name), {})
    )


def marked(kind: str, tenant: str, work: Awaitable[T], *what: object) -> Awaitable[T]:
    """Return an awaitable that awaits `work` below a mark.

    Args:
        kind: Kind of the work, one of few.
        tenant: Name of an existing tenant. Empty: the work is nobody's.
        work: The work.
        what: Describes the work further, for the log.
    """
    return _awaiting(kind, tenant)(work, *what)


def run_marked(kind: str, tenant: str, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a function below a mark, and return its result. See `marked`."""
    return cast("T", _calling(kind, tenant)(function, *arguments, **named))


def read(name: str) -> Mark | None:
    """Return the mark that the name of a function is, or None if it is none."""
    if not (name.startswith(_BEGIN) and name.endswith(_END)):
        return None
    kind, _, tenant = name[len(_BEGIN) : -len(_END)].rpartition(_TENANT)
    return Mark(kind, tenant)


def innermost(frame: FrameType | None) -> tuple[Mark, FrameType | None]:
    """Return the innermost mark at or above a frame, and its own frame."""
    while frame is not None:
        found = read(frame.f_code.co_name)
        if found is not None:
            return found, frame
        frame = frame.f_back
    return NOBODY, None


def described(frame: FrameType | None) -> str:
    """Return what describes the work below a mark further, by the mark's own frame."""
    return " ".join(str(each) for each in frame.f_locals.get("what", ())) if frame is not None else ""


class MarkingExecutor(ThreadPoolExecutor):
    """A pool of threads, in which a function runs below the mark of whoever submitted it."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Schedule a call; see `ThreadPoolExecutor.submit`."""
        mark, _ = innermost(sys._getframe(1))
        if mark is NOBODY:
            return super().submit(fn, *args, **kwargs)
        return super().submit(_calling(*mark), fn, *args, **kwargs)
