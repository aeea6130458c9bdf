"""One priority level of one tenant: its share of the seats, and the queues of its requests. Pure."""

import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from vcsync.apiserver.flow.classification import LevelSpec
from vcsync.apiserver.flow.shuffle_sharding import deal_queues
from vcsync.apiserver.flow.work_estimator import LEVEL_SHARE


@dataclass(slots=True)
class Level:
    """A priority level's settings and state.

    Attributes:
        name: Name of the PriorityLevelConfiguration.
        uid: UID of the PriorityLevelConfiguration.
        exempt: Whether requests run without waiting.
        queues: Number of queues; 0: requests do not wait.
        hand_size: Number of queues that one flow may use.
        queue_length: Requests that may wait in one queue.
        nominal: Seats that the level may always use.
        lower: Part of the nominal seats that the level never lends.
        upper: Seats that the level may use when others lend theirs.
        in_use: Seats taken.
        waiting: Requests in the queues.
        refused: Number of refused requests, by reason and schema.
        dispatched: Number of requests that ran, by schema.
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
        """Most seats that one request takes."""
        return max(1, math.ceil(self.nominal * LEVEL_SHARE))

    @property
    def reserved(self) -> int:
        """Seats that other levels of the tenant cannot use now."""
        return max(self.in_use, self.lower)

    def set(self, uid: str, spec: LevelSpec) -> None:
        """Apply a configuration. `share` sets the seats."""
        self.uid, self.exempt = uid, spec.type == "Exempt"
        response = spec.limited.limitResponse if spec.limited else None
        queuing = response.queuing if response is not None and response.type == "Queue" else None
        self.queues, self.hand_size, self.queue_length = (
            (queuing.queues, queuing.handSize, queuing.queueLengthLimit) if queuing else (0, 0, 0)
        )

    def share(self, spec: LevelSpec, seats: int, all_shares: int) -> None:
        """Compute the seats of the level, as apiserver's `finishQueueSetReconfigsLocked` does.

        Args:
            spec: Configuration of the level.
            seats: Seats of the tenant.
            all_shares: Sum of the shares of the tenant's levels.
        """
        self.nominal = -(-seats * spec.shares // all_shares) if all_shares else 0
        borrowing = spec.limited.borrowingLimitPercent if spec.limited else None
        self.lower = self.nominal - _round(self.nominal * spec.lendable, 100)
        more = seats if borrowing is None else _round(self.nominal * borrowing, 100)
        self.upper = self.nominal + more

    def enqueue(self, waiter: Any, flow: int, limit: int) -> int | None:
        """Add a request to the shortest queue that its flow may use.

        Args:
            waiter: The request.
            flow: Hash of its flow, 64 bits.
            limit: Requests that may wait in one queue, in addition to the limit of the configuration.

        Returns:
            The number of the queue, or None if the queue is full.
        """
        if self.queues:
            numbers = deal_queues(flow, self.queues, self.hand_size)
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
        """Return the next request. Call it only if a request waits."""
        return next(iter(self._queues.values()))[0]

    def dequeue(self) -> Any:
        """Remove and return the next request; queues take turns. Call it only if a request waits."""
        number, queue = next(iter(self._queues.items()))
        waiter = queue.popleft()
        self.waiting -= 1
        if queue:
            self._queues.move_to_end(number)
        else:
            del self._queues[number]
        return waiter

    def remove(self, number: int, waiter: Any) -> None:
        """Remove a request from its queue."""
        queue = self._queues[number]
        queue.remove(waiter)
        self.waiting -= 1
        if not queue:
            del self._queues[number]

    def refuse(self, reason: str, schema: str) -> None:
        """Count a refused request."""
        self.refused[reason, schema] = self.refused.get((reason, schema), 0) + 1


def _round(amount: int, by: int) -> int:
    """Divide and round halves up."""
    return (2 * amount + by) // (2 * by)
