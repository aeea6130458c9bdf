"""What an operator can set for the pod scheduler."""

from msgspec import Struct

from vcsync.tenancy.pool import Patience


class Settings(Struct, frozen=True):
    """Settings of the pod scheduler.

    `workers`: Pods in work at once, at most `per_tenant` of one tenant.
    """

    workers: int = 64
    per_tenant: int = 16
    patience: Patience = Patience()
