"""Deeds of admission for an object that is about to be created, which are taken back if it is not."""

from asyncio import Future
from typing import Protocol

from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.storage.interface import Outcome


class Tentative(Protocol):
    """One such deed. The registry calls `prepare` and `follow` for each attempt to write, and `give_back` at the end."""

    def prepare(self, working: Object) -> None:
        """Learn the UID under which the object is about to be written, and correct the object if the deed no longer stands.

        Args:
            working: The object in its working form, which may be changed.
        """

    def follow(self, transaction: "Future[Outcome]") -> None:
        """Follow the transaction that writes the object. It ends even if the request is cancelled."""

    def give_back(self) -> None:
        """Take the deed back, unless the object was sent to the store: then the transaction decides."""
