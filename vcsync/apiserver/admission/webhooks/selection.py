"""Decides whether a webhook is called for a write, and in which version.

Source: `ShouldCallHook` of apiserver's `pkg/admission/plugin/webhook/generic`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.cel.authorizing import Ask
from vcsync.apimachinery.cel.conditions import evaluate_conditions
from vcsync.apimachinery.cel.request import Attributes
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.matching import first_match, labels_match, labels_of
from vcsync.apiserver.admission.framework.plugin import Lookup
from vcsync.apiserver.admission.framework.request import (
    admission_request,
    namespace_of,
    place_of,
    with_resource,
)
from vcsync.apiserver.admission.webhooks.hooks import Hook
from vcsync.apiserver.admission.webhooks.versioned_objects import VersionedObjects
from vcsync.apiserver.request.scope import Admission

AuthorizerFor = Callable[[Admission], Ask | None]
"""Returns the authorizer for the expressions of a write. None: expressions have no authorizer."""


class Request:
    """A write with the facts that all webhooks share, each of which is computed once."""

    def __init__(
        self,
        admission: Admission,
        resources: Sequence[Resource],
        objects: VersionedObjects,
        lookup: Lookup,
        ask: Ask | None,
        *,
        named: bool,
    ) -> None:
        """Create the request.

        Args:
            admission: The write.
            resources: Its resource and the equivalent ones.
            objects: Its objects.
            lookup: Reads Namespaces.
            ask: The authorizer for expressions, or None.
            named: Whether webhooks see a generated name. Validating webhooks do.
        """
        self._named = named
        self.admission = admission
        self.objects = objects
        self._ask = ask
        self._lookup = lookup
        self._place = place_of(admission)
        own = admission.scope.kind.resource
        self._others = {
            (each.group, each.version): each
            for each in resources
            if (each.group, each.version) != (own.group, own.version)
        }
        self._places = tuple(with_resource(self._place, each) for each in self._others.values())
        self._labels: Mapping[str, str] | None = None
        self._read = False

    @property
    def name(self) -> str:
        """Name of the object. Empty: it has none yet."""
        admission = self.admission
        generated = admission.operation == "CREATE" and not admission.scope.name
        return "" if generated and not self._named else admission.name

    def admission_request(self, resource: Resource) -> Object:
        """Return the AdmissionRequest for a resource, without uid and objects."""
        return admission_request(self.admission, resource, name=self.name)

    async def should_call(self, hook: Hook) -> Resource | None:
        """Return the resource in whose version a webhook is called, or None if it is not called.

        Raises:
            StatusError: 404, the Namespace does not exist; 403, a match condition failed with failure policy Fail.
        """
        found = first_match(hook.rules, self._place, self._places if hook.equivalent else ())
        if found is None:
            return None
        resource = self._others.get((found.group, found.version), self.admission.scope.kind.resource)
        if hook.namespaces.requirements and not await self._in_selected_namespace(hook):
            return None
        if not labels_match(hook.objects, self.admission.new, self.admission.old):
            return None
        return resource if await self._meets_conditions(hook, resource) else None

    async def _in_selected_namespace(self, hook: Hook) -> bool:
        admission, resource = self.admission, self.admission.scope.kind.resource
        name = namespace_of(admission)
        if not name and resource.plural != "namespaces":
            return True
        own = resource.plural == "namespaces" and not admission.scope.subresource
        if own and admission.operation in ("CREATE", "UPDATE") and admission.new is not None:
            return hook.namespaces.matches(labels_of(admission.new))
        if not self._read:
            found = await self._lookup.get(admission.scope.tenant, "", "namespaces", name)
            self._labels, self._read = (None if found is None else labels_of(found)), True
        if self._labels is None:
            raise errors.not_found("namespaces", "", name)
        return hook.namespaces.matches(self._labels)

    async def _meets_conditions(self, hook: Hook, resource: Resource) -> bool:
        if not hook.conditions:
            return True
        admission = self.admission
        attributes = Attributes(
            admission.scope.tenant,
            self.admission_request(resource),
            await self.objects.new(resource),
            await self.objects.old(resource),
            ask=self._ask,
        )
        found = await evaluate_conditions(hook.conditions, attributes)
        if found.error and not hook.ignore:
            own = admission.scope.kind.resource
            raise errors.forbidden(own.plural, own.group, self.name, found.error)
        return found.matches


def no_authorizer(_: Any) -> None:
    """Return no authorizer."""
    return
