"""Authorizes owner references: setting them requires deleting the object; blocking the owner requires setting its finalizers.

Source: Kubernetes' `plugin/pkg/admission/gc` (OwnerReferencesPermissionEnforcement).
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import cache
from typing import Any

from vcsync.apimachinery.schema import builtin
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.plugin import Lookup, refusal
from vcsync.apiserver.request.caller import Attributes, Decision
from vcsync.apiserver.request.scope import Admission
from vcsync.objects.budget import Budget
from vcsync.process.loop_turns import rest

Decide = Callable[[Any, Attributes], Awaitable[Decision]]
"""Authorizes a caller: (caller, attributes of the request) -> decision."""

DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
DECISION_STEPS = 20
"""Steps of the check of one reference. See `vcsync.objects.budget`."""
_LEFT_OUT = {("", "pods", "status")}
"""Subresources whose own rules keep owner references unchanged."""
_ANYTHING = Attributes("update", group="*", version="*", resource="*", subresource="finalizers", name="*")


class OwnerReferences:
    """A plug-in that authorizes owner references.

    Args:
        decide: Authorizes callers.
    """

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    async def __call__(self, admission: Admission, lookup: Lookup) -> None:
        """Refuse owner references that the caller is not authorized to set.

        Raises:
            StatusError: 403.
        """
        new, old = _owners(admission.new), _owners(admission.old)
        scope = admission.scope
        if new == old or admission.new is None or scope.caller is None:
            return
        resource = scope.kind.resource
        if (resource.group, resource.plural, scope.subresource) in _LEFT_OUT:
            return
        if admission.operation != "CREATE":
            delete = Attributes(
                "delete",
                group=resource.group,
                version=resource.version,
                resource=resource.plural,
                subresource=scope.subresource,
                namespace=scope.namespace,
                name=admission.name,
            )
            decision = await self._decide(scope.caller, delete)
            if not decision.allowed:
                why = f"cannot set an ownerRef on a resource you can't delete: {decision.reason}, <nil>"
                raise refusal(admission, why)
        blocking = [*_newly_blocking(new, old)]
        if blocking and not (await self._decide(scope.caller, _ANYTHING)).allowed:
            kinds, budget = _Kinds(lookup, scope.tenant), Budget("the check of owner references")
            for reference in blocking:
                budget.spend(DECISION_STEPS)
                await rest(budget)
                await self._check(admission, kinds, reference)

    async def _check(self, admission: Admission, kinds: "_Kinds", reference: Object) -> None:
        """Check that the caller may set finalizers of the owner that a reference names.

        Raises:
            StatusError: 403.
        """
        scope = admission.scope
        version, kind = reference.get("apiVersion") or "", reference.get("kind") or ""
        found = await kinds.resources(version, kind)
        if not found:
            raise refusal(
                admission,
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion "
                f'{version} Kind {kind}: no matches for kind "{kind}" in version "{version}"',
            )
        group, _, number = version.rpartition("/")
        for plural, namespaced in found:
            update = Attributes(
                "update",
                group=group,
                version=number,
                resource=plural,
                subresource="finalizers",
                namespace=scope.namespace if namespaced else "",
                name=reference.get("name") or "",
            )
            decision = await self._decide(scope.caller, update)
            if not decision.allowed:
                raise refusal(
                    admission,
                    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set "
                    f"finalizers on: {decision.reason}, <nil>",
                )


def _owners(obj: Object | None) -> list[Object]:
    return ((obj or {}).get("metadata") or {}).get("ownerReferences") or []


def _newly_blocking(new: list[Object], old: list[Object]) -> Iterator[Object]:
    """Yield the references that block the deletion of their owner and did not before."""
    before = {each.get("uid"): bool(each.get("blockOwnerDeletion")) for each in old}
    return (each for each in new if each.get("blockOwnerDeletion") and not before.get(each.get("uid")))


@cache
def _builtin() -> dict[tuple[str, str], list[tuple[str, bool]]]:
    found: dict[tuple[str, str], list[tuple[str, bool]]] = {}
    for each in builtin.resources():
        found.setdefault((each.api_version, each.kind), []).append((each.plural, each.namespaced))
    return found


class _Kinds:
    """The kinds of a tenant. Its definitions are read once for all references of an object, which may have thousands."""

    def __init__(self, lookup: Lookup, tenant: str) -> None:
        self._lookup = lookup
        self._tenant = tenant
        self._custom: dict[tuple[str, str], list[tuple[str, bool]]] | None = None

    async def resources(self, api_version: str, kind: str) -> list[tuple[str, bool]]:
        """Return (plural, whether it is namespaced) for all resources of a kind."""
        known = _builtin().get((api_version, kind))
        if known:
            return known
        if self._custom is None:
            self._custom = _served(await self._lookup.all(self._tenant, *DEFINITIONS))
        return self._custom.get((api_version, kind), [])


def _served(definitions: Iterable[Object]) -> dict[tuple[str, str], list[tuple[str, bool]]]:
    """Return the resources of CustomResourceDefinitions by (apiVersion, kind) of the versions that they serve."""
    found: dict[tuple[str, str], list[tuple[str, bool]]] = {}
    for each in definitions:
        spec = each["spec"]
        for one in spec.get("versions") or ():
            if one.get("served"):
                key = (f"{spec.get('group')}/{one.get('name')}", spec["names"].get("kind") or "")
                found.setdefault(key, []).append((spec["names"]["plural"], spec.get("scope") == "Namespaced"))
    return found
