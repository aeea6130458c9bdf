"""Remembers the answers to reviews, so that a question that is asked again gets the same one and promises once. Pure."""

from collections import OrderedDict
from collections.abc import Callable

from vcsync.podscheduler.promises import PROMISED_SECONDS, Promise

MOST_ANSWERS = 2000
"""Most answers that are remembered for one tenant."""


class Replays:
    """The latest answers to one tenant.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._answers: OrderedDict[str, tuple[Promise | None, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def answer(self, uid: str, ask: Callable[[], Promise | None]) -> tuple[Promise | None, bool]:
        """Return the answer to a review, and whether it was given before.

        An answer is given again while the promise may stand.

        Args:
            uid: UID of the review.
            ask: asks for a promise.
        """
        now = self._clock()
        self._forget_old(now)
        found = self._answers.get(uid)
        if found is not None:
            return found[0], True
        promise = ask()
        self._answers[uid] = promise, now + PROMISED_SECONDS
        return promise, False

    def withdraw(self, uid: str) -> None:
        """Give a promise back whose answer was not sent, and forget it, so that it is decided again when asked again."""
        promise, _ = self._answers.pop(uid, (None, 0.0))
        if promise is not None:
            promise.give_back()

    def _forget_old(self, now: float) -> None:
        while self._answers:
            uid, (_, until) = next(iter(self._answers.items()))
            if until > now and len(self._answers) < MOST_ANSWERS:
                return
            del self._answers[uid]
