"""What serving keeps in memory of the store: told of changes, and read anew where changes were missed."""

from collections.abc import Callable, Sequence

from vcsync.controlplane.crd.catalogue import Catalogue
from vcsync.controlplane.crd.establish import Establisher
from vcsync.controlplane.flow.service import Fairness
from vcsync.controlplane.rest.hub import Doubted, Lost
from vcsync.controlplane.rest.lasting import Lasting
from vcsync.controlplane.rest.storage_limit import StorageLimit
from vcsync.controlplane.store.interface import Change


class Knowledge:
    """Custom resources, limits, requests that last, and whatever else `missed` and `doubted` speak for."""

    def __init__(
        self,
        catalogue: Catalogue,
        establisher: Establisher,
        lasting: Lasting,
        room: StorageLimit,
        fairness: Fairness | None,
        *,
        tenants: Callable[[], Sequence[str]],
        missed: Lost | None,
        doubted: Doubted | None,
    ) -> None:
        """Take the parts; `tenants` tells which there are, `missed` and `doubted` are told before the parts are."""
        self._catalogue = catalogue
        self._establisher = establisher
        self._lasting = lasting
        self._room = room
        self._fairness = fairness
        self._tenants = tenants
        self._missed = missed
        self._doubted = doubted

    def changed(self, changes: Sequence[Change]) -> None:
        """Take changes of the store; taking one twice does no harm."""
        for change in changes:
            self._catalogue.apply(change)
            self._establisher.observe(change)
        if self._fairness is not None:
            self._fairness.changed(changes)
        self._room.changed(changes)
        self._lasting.changed(changes)

    async def lost(self) -> None:
        """Take nothing for granted any more: changes were missed.

        Raises:
            StoreError: the store cannot be read.
        """
        if self._missed is not None:
            await self._missed()
        if self._fairness is not None:
            self._fairness.gate.changed_all()
        self._lasting.missed()
        self._room.missed()
        for tenant in self._tenants():
            self._catalogue.forget(tenant)
        await self._establisher.resume(self._tenants())

    async def doubt(self, tenant: str) -> None:
        """Take nothing for granted any more of one tenant: a change of it could not be taken.

        Raises:
            StoreError: the store cannot be read.
        """
        if self._doubted is not None:
            await self._doubted(tenant)
        if self._fairness is not None:
            self._fairness.gate.changed(tenant)
        self._lasting.missed()
        self._room.missed()
        self._catalogue.forget(tenant)
        await self._establisher.resume([tenant])
