"""A seeded stream of creates, updates, scalings and deletes by the users of one tenant."""

import http.client
import threading
from collections import Counter
from contextlib import AbstractContextManager
from typing import Protocol

from hack.chaos import actions, claims, published
from hack.chaos.actions import Action
from hack.chaos.users import Session, Users

ACTIONS = (*actions.ACTIONS, *claims.ACTIONS, *published.ACTIONS)
"""The actions of users, with their relative frequencies."""
PATIENCE = 30.0


class ControlPlane(Protocol):
    """A tenant's control plane, for its users."""

    @property
    def name(self) -> str:
        """The tenant's name."""
        ...

    def session(self, timeout: float) -> AbstractContextManager[Session]:
        """Return a connection as the tenant's administrator. `timeout` is in seconds."""
        ...


class Churn:
    """Has the users of one tenant act.

    Args:
        cluster: the tenant's control plane, without a proxy, because the users are not under test.
        seed: determines the actions, as long as the answers are the same.
        pause: maximum pause between two actions, in seconds.
        super_ids: of the super clusters, for users who write our labels.
        outages: whether the control plane is sometimes killed, so that users must expect no answer.
        store_lost: whether its etcd is sometimes unavailable, so that users must expect 5xx.
        own_range: its own range of cluster IPs, as a CIDR; "" without one.
    """

    def __init__(
        self,
        cluster: ControlPlane,
        seed: int,
        *,
        pause: float,
        super_ids: tuple[str, ...],
        outages: bool = False,
        store_lost: bool = False,
        own_range: str = "",
    ) -> None:
        self._cluster = cluster
        self._users = Users(cluster.name, seed, super_ids=super_ids, store_lost=store_lost)
        self._users.range = own_range
        self._pause = pause
        self._outages = outages
        self.done: Counter[str] = Counter()
        """Actions by name."""

    @property
    def marker(self) -> str:
        """Text in every object of these users, which no object of others may contain."""
        return self._users.marker

    @property
    def refused(self) -> list[str]:
        """Answers that no user should get."""
        return self._users.refused

    def run(self, stop: threading.Event) -> None:
        """Act until stopped, then remove all finalizers. Blocks."""
        with self._cluster.session(PATIENCE) as self._users.session:
            for _ in range(2):
                self._do(actions.new_namespace)
            while not stop.wait(self._users.random.uniform(0, self._pause)):
                self._act()
            self._do(actions.let_all_go)

    def _act(self) -> None:
        """Do one action, chosen at random by weight."""
        [action] = self._users.random.choices(
            [action for action, _ in ACTIONS], [weight for _, weight in ACTIONS]
        )
        if not self._users.namespaces:
            action = actions.new_namespace
        self.done[action.__name__] += 1
        self._do(action)

    def _do(self, action: Action) -> None:
        try:
            action(self._users)
        except (OSError, http.client.HTTPException) as error:
            if not self._outages:
                self.refused.append(f"{action.__name__}: {error!r}")
