"""The table of all kinds that operators publish to tenants."""

from typing import Final

from vcsync.published import (
    device_class,
    gateway_class,
    ingress_class,
    priority_class,
    runtime_class,
    storage_class,
    volume_snapshot_class,
)
from vcsync.published.kind import PublishedKind

KINDS: Final[tuple[PublishedKind, ...]] = (
    storage_class.KIND,
    ingress_class.KIND,
    priority_class.KIND,
    runtime_class.KIND,
    device_class.KIND,
    volume_snapshot_class.KIND,
    gateway_class.KIND,
)
"""All published kinds."""
