"""Settings of the tenant controller."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Settings(Struct, frozen=True):
    """Settings of the tenant controller. Times in seconds.

    Attributes:
        defaults: fields of every new VirtualCluster's spec; a Tenant's own fields override them.
        grace: how long the finalizers in the control plane of a deleted Tenant are respected.
        poll: pause between two looks at something that is under way.
        retry: pause after a problem that somebody has to solve.
        resync: pause between two looks at a Tenant that is ready.
        workers: number of Tenants that are handled at once.
    """

    defaults: Mapping[str, Any] = {}
    grace: int = 300
    poll: float = 1.0
    retry: float = 10.0
    resync: float = 60.0
    workers: int = 8
