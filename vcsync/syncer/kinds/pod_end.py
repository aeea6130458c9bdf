"""Tells whether a super cluster's Pod has ended because it is being deleted. Pure.

A kubelet reports that the containers have ended before it lets the Pod go. So a Pod that is being deleted and has ended may have
run until then, or may have finished long before.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from vcsync.objects.envelope import Envelope, decode


class _Terminated(Struct, gc=False, rename="camel"):
    finished_at: str | None = None


class _State(Struct, gc=False):
    terminated: _Terminated | None = None


class _Container(Struct, gc=False):
    state: _State | None = None


class _Status(Struct, rename="camel"):
    container_statuses: list[_Container] | None = None


def ended_by_deletion(pod: Envelope) -> bool:
    """Return whether a Pod that is being deleted and has ended still ran when its deletion was requested.

    It counts as finished before if nobody has reported when its containers ended, as after an eviction by its kubelet. Times have
    whole seconds.
    """
    if pod.deletion_timestamp is None:
        return False
    requested = datetime.fromisoformat(pod.deletion_timestamp) - timedelta(
        seconds=pod.deletion_grace_seconds or 0
    )
    states = [each.state for each in decode(pod.status, _Status).container_statuses or ()]
    ends = [
        datetime.fromisoformat(state.terminated.finished_at)
        for state in states
        if state is not None and state.terminated is not None and state.terminated.finished_at
    ]
    return bool(ends) and max(ends) >= requested
