"""API Priority and Fairness of all tenants, as the server uses it."""

from collections.abc import Callable, Sequence
from functools import partial

from vcsync.apiserver.flow import configuration, metrics
from vcsync.apiserver.flow.config_controller import ConfigController
from vcsync.apiserver.flow.configuration import MARK
from vcsync.apiserver.flow.dispatcher import Bounds, SeatDispatcher
from vcsync.apiserver.storage.interface import Change, Store, tenant_of
from vcsync.apiserver.tenants.records import TENANTS


class Fairness:
    """The dispatcher of seats, and the controller of the objects that configure it.

    Args:
        store: The store.
        now: Returns the time in RFC 3339.
        bounds: Limits of concurrent requests. None: the defaults.
        weight: Returns the weight of a tenant.

    Attributes:
        gate: Gives seats.
        config_controller: Maintains the objects; `run` it.
    """

    def __init__(
        self,
        store: Store,
        now: Callable[[], str],
        bounds: Bounds | None = None,
        weight: Callable[[str], int] = lambda _: 1,
    ) -> None:
        self.gate = SeatDispatcher(bounds or Bounds(), partial(configuration.read, store), weight)
        self.config_controller = ConfigController(store, now)

    def changed(self, changes: Sequence[Change]) -> None:
        """Apply changes of the store. Changes of other objects cost little."""
        for change in changes:
            if MARK in change.key:
                self.gate.changed(tenant_of(change.key))
                self.config_controller.changed((change,))
            elif change.key.startswith(TENANTS):
                self.gate.changed(change.key.removeprefix(TENANTS))

    def text(self, tenant: str) -> bytes:
        """Return a tenant's metrics in Prometheus' text format."""
        space = self.gate.spaces.get(tenant)
        return metrics.text(space, self.gate.write_limiter.waiting(tenant)) if space is not None else b""
