"""Limits the time for which a copy of a Pod may end that is removed without its tenant's deletion. Pure."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from vcsync.objects.envelope import Envelope, decode

LONGEST_GRACE_SECONDS: Final = 24 * 3600
"""Longest grace period of a copy that ends for a drain, or since its Pod is gone or elsewhere, in seconds.

A tenant may set any number of years.
"""


class _PodSpec(Struct, gc=False):
    grace: int | None = field(default=None, name="terminationGracePeriodSeconds")


def limited_grace(pod: Envelope) -> int | None:
    """Return the grace period for the deletion of a copy; None to use its own or the current one."""
    granted = pod.deletion_grace_seconds if pod.deleting else decode(pod.spec, _PodSpec).grace
    return LONGEST_GRACE_SECONDS if granted is not None and granted > LONGEST_GRACE_SECONDS else None
