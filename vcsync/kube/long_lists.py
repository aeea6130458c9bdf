"""Reads lists of control planes that are not trusted, and may answer without end."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from vcsync.kube.errors import KubeError
from vcsync.objects.envelope import Envelope, ListPage


async def has_any(
    pages: AsyncGenerator[ListPage, None], wanted: Callable[[Envelope], bool], most: int
) -> bool:
    """Return whether a list has an object for which `wanted` returns true. It is read up to that object.

    Args:
        pages: the pages, of `Client.pages`.
        wanted: called with each object.
        most: number of pages after which the list counts as endless.

    Raises:
        KubeError: the list has more pages, or cannot be read.
    """
    async with aclosing(_bounded(pages, most)) as each:
        async for page in each:
            if any(map(wanted, page.items)):
                return True
    return False


async def take_pages(
    pages: AsyncGenerator[ListPage, None], take: Callable[[Sequence[Envelope]], None], most: int
) -> None:
    """Pass each page of a list to a function. Only one page is in memory, unless the function keeps it.

    Args:
        pages: the pages, of `Client.pages`.
        take: called with the objects of each page.
        most: number of pages after which the list counts as endless.

    Raises:
        KubeError: the list has more pages, or cannot be read.
    """
    async with aclosing(_bounded(pages, most)) as each:
        async for page in each:
            take(page.items)


async def _bounded(pages: AsyncGenerator[ListPage, None], most: int) -> AsyncGenerator[ListPage, None]:
    number = 0
    async with aclosing(pages) as each:
        async for page in each:
            number += 1
            if number > most:
                raise KubeError(f"a list has more than {most} pages")
            yield page
