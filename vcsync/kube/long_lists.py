"""Reads lists of control planes that are not trusted, and may answer without end."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from vcsync.kube.errors import KubeError
from vcsync.objects.envelope import Envelope, ListPage


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
    number = 0
    async with aclosing(pages) as each:
        async for page in each:
            number += 1
            if number > most:
                raise KubeError(f"a list has more than {most} pages")
            take(page.items)
