"""Objects that a TenantPolicy places in tenants: where they belong, and what is wrong with them. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import msgspec

from vcsync.api.policy_specs import PlacedObject
from vcsync.apimachinery import errors
from vcsync.apimachinery.copies import copied
from vcsync.apimachinery.errors import FieldError, StatusError
from vcsync.apimachinery.resources import Resource, object_key
from vcsync.apimachinery.strategy import Context, Object, User
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.wire import decode
from vcsync.apiserver.discovery.served import builtin_kinds
from vcsync.apiserver.request.caller import SYSTEM
from vcsync.apiserver.request.resource import Kind

RBAC: Final = "rbac.authorization.k8s.io"
PLACEABLE: Final = frozenset(
    {
        ("", "configmaps"), ("", "limitranges"), ("", "resourcequotas"), ("", "secrets"),
        ("networking.k8s.io", "networkpolicies"), ("node.k8s.io", "runtimeclasses"),
        ("scheduling.k8s.io", "priorityclasses"),
        (RBAC, "clusterrolebindings"), (RBAC, "clusterroles"), (RBAC, "rolebindings"), (RBAC, "roles"),
    }
)  # fmt: skip
SPARED: Final = frozenset({"kube-node-lease", "kube-public", "kube-system", "vcsync-system"})
"""Namespaces in which objects are placed only if the policy names them."""
SOURCES: Final[Mapping[str, tuple[str, str]]] = {
    "ConfigMap": ("v1", "configmaps"),
    "Secret": ("v1", "secrets"),
}
_SELF: Final = User("system:apiserver", groups=("system:masters",))


@dataclass(frozen=True, slots=True)
class Placed:
    """One object of a policy.

    Attributes:
        policy: Name of the policy.
        kind: Kind of the object.
        name: Name of the object.
        namespaces: Namespaces in which it belongs. None: all but the spared ones. Not used if it is cluster-scoped.
        body: The object. None: it is a copy.
        source: Key of the object in the operator's space of which it is a copy.
    """

    policy: str
    kind: Kind
    name: str
    namespaces: frozenset[str] | None
    body: Object | None
    source: str = ""

    def is_at(self, resource: Resource, namespace: str, name: str) -> bool:
        """Return whether the object has this place in the tenants of the policy."""
        own = self.kind.resource
        if name != self.name or (own.storage_group, own.plural) != (resource.storage_group, resource.plural):
            return False
        return not own.namespaced or self._is_in(namespace)

    def within(self, namespaces: Iterable[str]) -> list[str]:
        """Return the namespaces in which the object belongs. An empty one stands for a cluster-scoped object."""
        if not self.kind.resource.namespaced:
            return [""]
        return [each for each in namespaces if self._is_in(each)]

    def _is_in(self, namespace: str) -> bool:
        return namespace not in SPARED if self.namespaces is None else namespace in self.namespaces


def read_placed(policy: str, spec: PlacedObject) -> Placed:
    """Read an object of a policy.

    Raises:
        ValueError: It cannot be placed; the message says why.
    """
    namespaces = frozenset(spec.namespaces) or None
    if spec.copy_of is not None:
        version, plural = SOURCES[spec.copy_of.kind]
        source = object_key(SYSTEM, "", plural, spec.copy_of.namespace, spec.copy_of.name)
        return Placed(
            policy, builtin_kinds()["", version, plural], spec.copy_of.name, namespaces, None, source
        )
    manifest = spec.manifest or {}
    kind = _kinds().get((manifest.get("apiVersion"), manifest.get("kind")))
    if kind is None:
        known = ", ".join(sorted(each.resource.kind for each in _kinds().values()))
        raise ValueError(f"apiVersion and kind must be those of one of {known}")
    name = (manifest.get("metadata") or {}).get("name")
    if not isinstance(name, str) or not name:
        raise ValueError("metadata.name is missing")
    if not kind.resource.namespaced and namespaces is not None:
        raise ValueError(f"{kind.resource.kind} has no namespace: remove namespaces")
    resource = kind.resource
    expected = decode.Expected(resource.group, resource.version, resource.kind, False)
    try:
        body = decode.read(msgspec.json.encode(manifest), "json", expected, validation="Strict").object
    except StatusError as error:
        raise ValueError(error.message) from None
    metadata = {key: body["metadata"][key] for key in ("labels", "annotations") if body["metadata"].get(key)}
    return Placed(policy, kind, name, namespaces, {**body, "metadata": {"name": name, **metadata}})


def problems_of(objects: Iterable[PlacedObject]) -> list[FieldError]:
    """Return what is wrong with the objects of a policy."""
    found: list[FieldError] = []
    for index, each in enumerate(objects):
        path = f"spec.placedObjects[{index}]"
        try:
            placed = read_placed("", each)
        except ValueError as why:
            found.append(errors.wrong(path, "", str(why)))
            continue
        found += [replace(wrong, field=f"{path}.manifest.{wrong.field}") for wrong in _judged(placed)]
    return found


def _judged(placed: Placed) -> list[FieldError]:
    """Return the findings of the rules of the kind."""
    if placed.body is None:
        return []
    behaviour = placed.kind.behaviour
    working = placed.kind.working(copied(placed.body))
    if placed.kind.resource.namespaced:
        working["metadata"]["namespace"] = "default"
    behaviour.prepare_create(working, Context(SYSTEM, _SELF, "2000-01-01T00:00:00Z"))
    rule = behaviour.name or names.subdomain_name
    found = [errors.wrong("metadata.name", placed.name, each) for each in rule(placed.name, False)]
    return [*found, *behaviour.validate(working)]


@cache
def _kinds() -> Mapping[tuple[object, object], Kind]:
    return {
        (each.resource.api_version, each.resource.kind): each
        for each in builtin_kinds().values()
        if (each.resource.group, each.resource.plural) in PLACEABLE
    }
