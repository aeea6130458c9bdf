"""Remembers since when a super cluster fails to provision volumes for a tenant's claims, from its Events."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS
from vcsync.objects.envelope import Envelope, untyped

PROVISIONING_FAILED: Final = "ProvisioningFailed"
"""Event reason with which provisioners and the binder of a cluster report that a claim gets no volume."""
CLAIMS_REMEMBERED: Final = 4096
"""Number of claims of a tenant that are remembered. The oldest is forgotten first."""


def reports_failure(kind: str, event: Envelope) -> bool:
    """Return whether an Event says that a claim could not be provisioned.

    Args:
        kind: kind of the object that the Event is about.
        event: the super cluster's Event.
    """
    if kind != PERSISTENT_VOLUME_CLAIMS.kind:
        return False
    found = untyped(event.rest)
    return (found.get("type"), found.get("reason")) == ("Warning", PROVISIONING_FAILED)


class ProvisioningFailures:
    """The first failure to provision each claim of one tenant in a super cluster. After a restart it begins again.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: OrderedDict[str, float] = OrderedDict()

    def note(self, uid: str) -> bool:
        """Note a failure to provision the copy of a claim, by its UID. Return whether it is the first one."""
        if uid in self._since:
            return False
        self._since[uid] = self._clock()
        if len(self._since) > CLAIMS_REMEMBERED:
            self._since.popitem(last=False)
        return True

    def seconds(self, uid: str) -> float | None:
        """Return the seconds since the first failure for the copy of a claim; None if there was none."""
        since = self._since.get(uid)
        return None if since is None else self._clock() - since
