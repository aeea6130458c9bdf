"""PATCH: from a patch to the object that shall stand there."""

import copy

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.patch import documents
from vcsync.controlplane.rest import meta
from vcsync.controlplane.rest.bodies import fitted
from vcsync.controlplane.rest.options import WriteOptions
from vcsync.controlplane.rest.registry import Change
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.rest.tracking import Tracker
from vcsync.controlplane.wire import negotiation


class Patcher:
    """Makes changes of patches."""

    def __init__(self, tracker: Tracker) -> None:
        """Take who keeps managedFields."""
        self._tracker = tracker

    def private(self, obj: Object) -> Object:
        """Return a copy that may be changed."""
        return copy.deepcopy(obj)

    def change(self, scope: Scope, form: str, patch: bytes, options: WriteOptions) -> Change:
        """Return what a patch does to whatever stands there."""
        if form == negotiation.APPLY_PATCH:
            return self._apply(scope, patch, options)

        async def change(live: Object | None) -> Object:
            if live is None:
                resource = scope.kind.resource
                raise errors.not_found(resource.plural, resource.group, scope.name)
            new = documents.apply_patch(form, live, patch, scope.kind.schema)
            new = fitted(scope, new, options.validation)
            self._settle(scope, new)
            self._tracker.update(scope, live, new, options.manager)
            return new

        return change

    def _apply(self, scope: Scope, patch: bytes, options: WriteOptions) -> Change:
        raise errors.unsupported_media_type("server-side apply is not available yet")

    @staticmethod
    def _settle(scope: Scope, new: Object) -> None:
        metadata = new["metadata"]
        meta.settle_namespace(metadata, scope.namespace if scope.kind.resource.namespaced else "")
        meta.check_name(metadata, scope.name, scope.namespace)
        scope.warn(meta.drop_duplicate_owners(metadata))
