"""Whether a webhook is asked about a write, and in which version.

Source: `ShouldCallHook` of apiserver's `pkg/admission/plugin/webhook/generic`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vcsync.controlplane import errors
from vcsync.controlplane.admission.matching import first_match, labels_match, labels_of
from vcsync.controlplane.admission.plugin import Lookup
from vcsync.controlplane.admission.request import admission_request, namespace_of, place_of, seen_at
from vcsync.controlplane.admission.webhooks.hooks import Hook
from vcsync.controlplane.admission.webhooks.seen import Seen
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.cel.authorizing import Ask
from vcsync.controlplane.cel.conditions import evaluate_conditions
from vcsync.controlplane.cel.request import Attributes
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest.scope import Admission

AskFor = Callable[[Admission], Ask | None]
"""Returns the authorizer that expressions see."""


class Request:
    """One write, and what is found out about it for all webhooks."""

    def __init__(
        self,
        asked: Admission,
        resources: Sequence[Resource],
        seen: Seen,
        lookup: Lookup,
        ask: Ask | None,
        *,
        named: bool,
    ) -> None:
        """Take the write.

        Args:
            asked: the write.
            resources: its resource, and those whose objects are the same.
            seen: its objects.
            lookup: finds namespaces.
            ask: the authorizer that expressions see; None: they see none.
            named: whether a generated name counts already: it does once the object is validated.
        """
        self._named = named
        self.asked = asked
        self.seen = seen
        self._ask = ask
        self._lookup = lookup
        self._place = place_of(asked)
        own = asked.scope.kind.resource
        self._others = {
            (each.group, each.version): each
            for each in resources
            if (each.group, each.version) != (own.group, own.version)
        }
        self._places = tuple(seen_at(self._place, each) for each in self._others.values())
        self._labels: Mapping[str, str] | None = None
        self._read = False

    @property
    def name(self) -> str:
        """Of the object; empty: it has none yet."""
        asked = self.asked
        generated = asked.operation == "CREATE" and not asked.scope.name
        return "" if generated and not self._named else asked.name

    def told(self, seen: Resource) -> Object:
        """Return the AdmissionRequest without uid and objects."""
        return admission_request(self.asked, seen, name=self.name)

    async def asks(self, hook: Hook) -> Resource | None:
        """Return the resource as which a webhook is asked, None: it is not.

        Raises:
            StatusError: it cannot be known.
        """
        found = first_match(hook.rules, self._place, self._places if hook.equivalent else ())
        if found is None:
            return None
        resource = self._others.get((found.group, found.version), self.asked.scope.kind.resource)
        if hook.namespaces.requirements and not await self._in_selected_namespace(hook):
            return None
        if not labels_match(hook.objects, self.asked.new, self.asked.old):
            return None
        return resource if await self._meets_conditions(hook, resource) else None

    async def _in_selected_namespace(self, hook: Hook) -> bool:
        asked, resource = self.asked, self.asked.scope.kind.resource
        name = namespace_of(asked)
        if not name and resource.plural != "namespaces":
            return True
        own = resource.plural == "namespaces" and not asked.scope.subresource
        if own and asked.operation in ("CREATE", "UPDATE") and asked.new is not None:
            return hook.namespaces.matches(labels_of(asked.new))
        if not self._read:
            found = await self._lookup.get(asked.scope.tenant, "", "namespaces", name)
            self._labels, self._read = (None if found is None else labels_of(found)), True
        if self._labels is None:
            raise errors.not_found("namespaces", "", name)
        return hook.namespaces.matches(self._labels)

    async def _meets_conditions(self, hook: Hook, resource: Resource) -> bool:
        if not hook.conditions:
            return True
        asked = self.asked
        attributes = Attributes(
            asked.scope.tenant,
            self.told(resource),
            await self.seen.new(resource),
            await self.seen.old(resource),
            ask=self._ask,
        )
        found = await evaluate_conditions(hook.conditions, attributes)
        if found.error and not hook.ignore:
            own = asked.scope.kind.resource
            raise errors.forbidden(own.plural, own.group, self.name, found.error)
        return found.matches


def nobody(_: Any) -> None:
    """Let expressions see no authorizer."""
    return
