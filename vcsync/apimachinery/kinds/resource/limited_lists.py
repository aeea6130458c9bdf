"""Lists with a maximum number of items. Pure.

Source: `validateSlice` and `validateSet` in Kubernetes' `pkg/apis/resource/validation`.
"""

from collections.abc import Callable
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.validation.fields import Findings, Object, indexed, items

Check = Callable[[str, Any], Findings]
"""(path of an item, item) -> findings."""


def limited(path: str, found: Object, key: str, most: int, check: Check) -> Findings:
    """Check the items of the list at `path`. A list with more than `most` items gets one finding only."""
    if len(items(found, key)) > most:
        yield errors.too_many(path, len(items(found, key)), most)
        return
    for each, here in indexed(found, key, path):
        yield from check(here, each)


def limited_set(
    path: str, found: Object, key: str, most: int, check: Check, *, identity: Callable[[Any], Any]
) -> Findings:
    """Check the items of a list as `limited` does, then that no two have the same identity."""
    yield from limited(path, found, key, most, check)
    if len(items(found, key)) > most:
        return
    seen: list[Any] = []
    for each, here in indexed(found, key, path):
        value = identity(each)
        if value in seen:
            yield errors.duplicate(here, value)
        else:
            seen.append(value)
