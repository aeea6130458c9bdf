"""Decides which Pods may leave a super cluster now, so that their controllers keep enough ready Pods. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Protocol

from msgspec import Struct

_PERCENT_DIGITS: Final = 3


class Availability(Protocol):
    """Knows which Pods of one namespace may leave now, during one step of its drain."""

    async def why_stay(self, name: str, uid: str) -> str:
        """Return why a Pod of the tenant must stay at present; "" if it may leave."""
        ...

    def note_left(self, name: str) -> None:
        """Note that a Pod has been told to leave."""


class Member(Struct, frozen=True):
    """One Pod of a controller, on whatever super cluster it is.

    Attributes:
        name: its name.
        ready: whether it is ready, and not being deleted.
        waits: why it has no node; "" if it has one, or nobody has said why.
    """

    name: str
    ready: bool
    waits: str = ""


class Demand(Struct, frozen=True):
    """The number of Pods that a controller wants.

    Attributes:
        controller: kind and name, for messages.
        replicas: number of Pods that it wants.
        tolerated: number of them that it lets be missing while it replaces its Pods itself.
    """

    controller: str
    replicas: int
    tolerated: int = 1

    @property
    def least(self) -> int:
        """Number of ready Pods that a drain leaves. One Pod may always be missing, since otherwise none could ever leave."""
        return max(0, self.replicas - max(1, self.tolerated))


def tolerated_of(max_unavailable: int | str | None, replicas: int) -> int:
    """Return the number of Pods in `maxUnavailable` of a Deployment: a number, or a percentage that is rounded down.

    A value that is neither counts as 0, as an API server does not store one.
    """
    if isinstance(max_unavailable, str):
        digits = max_unavailable.removesuffix("%")
        return int(digits) * replicas // 100 if digits.isdecimal() and len(digits) <= _PERCENT_DIGITS else 0
    return max_unavailable or 0


def reason_to_stay(name: str, members: Iterable[Member], demand: Demand, left: Collection[str]) -> str:
    """Return why a Pod must stay at present; "" if it may leave.

    A Pod that is not ready may always leave: without it nothing is missing that was there. A ready one may leave if the
    controller keeps its least number of ready Pods without it. So every next Pod waits until the ones before it have been
    replaced.

    Args:
        name: the Pod.
        members: all Pods of its controller that have not ended.
        demand: what the controller wants.
        left: names of the Pods that have been told to leave since `members` was read.
    """
    staying = [each for each in members if each.name not in left]
    ready = [each for each in staying if each.ready]
    if len(ready) > demand.least or all(each.name != name for each in ready):
        return ""
    said = next((f"Pod {each.name} waits: {each.waits}" for each in staying if each.waits), "")
    return f"{demand.controller} has {len(ready)} of {demand.replicas} Pods ready" + (said and f"; {said}")
