"""The table of all kinds that operators publish to tenants."""

from typing import Final

from vcsync.published import storage_class
from vcsync.published.kind import PublishedKind

KINDS: Final[tuple[PublishedKind, ...]] = (storage_class.KIND,)
"""All published kinds."""
