"""managedFields of writes: which manager owns what, for every kind and subresource."""

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.rest.scope import Scope


class Tracker:
    """Keeps managedFields."""

    def update(self, scope: Scope, live: Object | None, new: Object, manager: str) -> None:
        """Set what a create, update or patch (other than apply) leaves in `new`'s managedFields.

        Args:
            scope: of the request.
            live: what stands there, served; None: nothing.
            new: what shall stand there, served; changed in place.
            manager: the request's fieldManager; empty: made of the User-Agent.
        """
        if not new["metadata"].get("managedFields"):
            new["metadata"].pop("managedFields", None)
