"""One priority level of one tenant: its share of the tenant's seats, and the queues in which its requests wait. Pure."""

import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from vcsync.controlplane.flow.dealing import hand
from vcsync.controlplane.flow.rules import LevelSpec
from vcsync.controlplane.flow.widths import LEVEL_SHARE


@dataclass(slots=True)
class Level:
    """A priority level's settings and state.

    Attributes:
        nominal: seats it may use whatever others do.
        lower: those of them that it never lends.
        upper: seats it may use when others leave theirs.
        in_use: seats taken.
        waiting: requests in its queues.
        refused: how many were, by reason and schema.
        dispatched: how many were served, by schema.
    """

    name: str
    uid: str = ""
    exempt: bool = False
    queues: int = 0
    hand_size: int = 0
    queue_length: int = 0
    nominal: int = 0
    lower: int = 0
    upper: int = 0
    in_use: int = 0
    waiting: int = 0
    refused: dict[tuple[str, str], int] = field(default_factory=dict)
    dispatched: dict[str, int] = field(default_factory=dict)
    _queues: OrderedDict[int, deque[Any]] = field(default_factory=OrderedDict)

    @property
    def widest(self) -> int:
        """Seats that one request takes at most."""
        return max(1, math.ceil(self.nominal * LEVEL_SHARE))

    @property
    def reserved(self) -> int:
        """Seats that other levels of the tenant cannot have now."""
        return max(self.in_use, self.lower)

    def set(self, uid: str, spec: LevelSpec) -> None:
        """Take over a configuration; `share` tells it of its seats."""
        self.uid, self.exempt = uid, spec.type == "Exempt"
        response = spec.limited.limitResponse if spec.limited else None
        queuing = response.queuing if response is not None and response.type == "Queue" else None
        self.queues, self.hand_size, self.queue_length = (
            (queuing.queues, queuing.handSize, queuing.queueLengthLimit) if queuing else (0, 0, 0)
        )

    def share(self, spec: LevelSpec, seats: int, all_shares: int) -> None:
        """Work out its seats of the tenant's, as apiserver's `finishQueueSetReconfigsLocked` does."""
        self.nominal = -(-seats * spec.shares // all_shares) if all_shares else 0
        borrowing = spec.limited.borrowingLimitPercent if spec.limited else None
        self.lower = self.nominal - _round(self.nominal * spec.lendable, 100)
        more = seats if borrowing is None else _round(self.nominal * borrowing, 100)
        self.upper = self.nominal + more

    def enqueue(self, waiter: Any, flow: int, limit: int) -> int | None:
        """Let a request wait in the shortest queue that its flow may use.

        Args:
            waiter: the request.
            flow: hash of its flow, 64 bits.
            limit: requests that may wait in one queue besides what the configuration says.

        Returns:
            the number of the queue; None: there is no room.
        """
        if self.queues:
            numbers = hand(flow, self.queues, self.hand_size)
            number = min(numbers, key=lambda each: len(self._queues.get(each, ())))
            limit = min(limit, self.queue_length)
        elif self.exempt:
            number = 0
        else:
            return None
        queue = self._queues.get(number)
        if queue is None:
            queue = self._queues[number] = deque()
        if len(queue) >= limit:
            return None
        queue.append(waiter)
        self.waiting += 1
        return number

    def first(self) -> Any:
        """Return who is next. Only to be called when somebody waits."""
        return next(iter(self._queues.values()))[0]

    def dequeue(self) -> Any:
        """Take out who is next: queues take turns. Only to be called when somebody waits."""
        number, queue = next(iter(self._queues.items()))
        waiter = queue.popleft()
        self.waiting -= 1
        if queue:
            self._queues.move_to_end(number)
        else:
            del self._queues[number]
        return waiter

    def remove(self, number: int, waiter: Any) -> None:
        """Let somebody wait no longer."""
        queue = self._queues[number]
        queue.remove(waiter)
        self.waiting -= 1
        if not queue:
            del self._queues[number]

    def refuse(self, reason: str, schema: str) -> None:
        """Count a refusal."""
        self.refused[reason, schema] = self.refused.get((reason, schema), 0) + 1


def _round(amount: int, by: int) -> int:
    """Divide, halves rounded up."""
    return (2 * amount + by) // (2 * by)
