"""Reads a tenant's roles and bindings from the store, makes a policy of them, and changes it as they change."""

from typing import Any, TypeVar

import msgspec

from vcsync.controlplane.identity.escalation import BINDINGS, ROLES
from vcsync.controlplane.identity.policy import GROUP, Binding, Policy, Rules, Subject
from vcsync.controlplane.identity.rbac import parse_rules
from vcsync.controlplane.lately import lately
from vcsync.controlplane.resources import collection_key
from vcsync.controlplane.store.interface import Change, Store

PAGE = 500
MARK = f"/{GROUP}/"
"""Stands in the keys of RBAC objects, after the tenant."""


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""


class _Role(msgspec.Struct):
    metadata: _Metadata
    rules: msgspec.Raw = msgspec.Raw(b"null")


class _Subject(msgspec.Struct):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class _RoleRef(msgspec.Struct):
    kind: str = ""
    name: str = ""


class _Binding(msgspec.Struct):
    metadata: _Metadata
    roleRef: _RoleRef  # noqa: N815
    subjects: list[_Subject] | None = None


_Kind = TypeVar("_Kind", _Role, _Binding)
_roles: msgspec.json.Decoder[_Role] = msgspec.json.Decoder(_Role)
_bindings: msgspec.json.Decoder[_Binding] = msgspec.json.Decoder(_Binding)


@lately(1024, 32 * 1024)
def _rules(raw: bytes) -> Rules:
    """Parse the rules of a role, once for all tenants that have the same."""
    rules: list[dict[str, Any]] | None = msgspec.json.decode(raw)
    return parse_rules(rules)


async def read_policy(store: Store, tenant: str, revision: int) -> Policy:
    """Read a tenant's RBAC objects at one revision.

    Raises:
        StoreError: the store cannot be read.
    """
    cluster_roles = await _read(store, tenant, "clusterroles", _roles, revision)
    roles = await _read(store, tenant, "roles", _roles, revision)
    cluster_bindings = await _read(store, tenant, "clusterrolebindings", _bindings, revision)
    bindings = await _read(store, tenant, "rolebindings", _bindings, revision)
    return Policy(
        {role.metadata.name: _rules(bytes(role.rules)) for role in cluster_roles},
        {(role.metadata.namespace, role.metadata.name): _rules(bytes(role.rules)) for role in roles},
        [_binding(each) for each in (*cluster_bindings, *bindings)],
    )


def apply(policy: Policy, change: Change) -> None:
    """Change a policy as one of its tenant's RBAC objects changed; costs what that object costs, not the tenant."""
    _, _, rest = change.key.partition(MARK)
    plural, *place = rest.split("/")
    namespace, name = ("", *place)[-2:]
    if plural in ROLES:
        role = None if change.value is None else _rules(bytes(_roles.decode(change.value).rules))
        policy.set_role(namespace, name, role)
    elif plural in BINDINGS:
        binding = None if change.value is None else _binding(_bindings.decode(change.value))
        policy.set_binding(namespace, name, binding)


def _binding(read: _Binding) -> Binding:
    subjects = tuple(Subject(each.kind, each.name, each.namespace) for each in read.subjects or ())
    metadata = read.metadata
    return Binding(metadata.name, read.roleRef.kind, read.roleRef.name, subjects, metadata.namespace)


async def _read(
    store: Store, tenant: str, plural: str, decoder: msgspec.json.Decoder[_Kind], revision: int
) -> list[_Kind]:
    found: list[_Kind] = []
    prefix, after = collection_key(tenant, GROUP, plural), ""
    while True:
        page = await store.range(prefix, after=after, limit=PAGE, revision=revision)
        found += [decoder.decode(record.value) for record in page.records]
        if not page.more:
            return found
        after = page.records[-1].key
