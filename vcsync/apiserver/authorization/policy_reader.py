"""Reads the policy of a tenant from the store, and applies changes of its roles and bindings."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import structlog

from vcsync.apimachinery.resources import collection_key
from vcsync.apimachinery.text_cache import cache_short_texts
from vcsync.apiserver.authorization.escalation import BINDINGS, ROLES
from vcsync.apiserver.authorization.policy import GROUP, Binding, Policy, Rules, Subject
from vcsync.apiserver.authorization.rbac import parse_rules
from vcsync.apiserver.storage.interface import Change, Store

PAGE = 500
MARK = f"/{GROUP}/"
"""Part of the keys of RBAC objects, after the tenant."""


_log = structlog.get_logger(__name__)


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


_Made = TypeVar("_Made")
_roles: msgspec.json.Decoder[_Role] = msgspec.json.Decoder(_Role)
_bindings: msgspec.json.Decoder[_Binding] = msgspec.json.Decoder(_Binding)


@cache_short_texts(1024, 32 * 1024)
def _rules(raw: bytes) -> Rules:
    """Parse the rules of a role. Tenants with equal roles share the result."""
    rules: list[dict[str, Any]] | None = msgspec.json.decode(raw)
    return parse_rules(rules)


async def read_policy(store: Store, tenant: str, revision: int) -> Policy:
    """Read the RBAC objects of a tenant at one revision. An invalid object grants nothing.

    Raises:
        StoreError: The store cannot be read.
    """
    cluster_roles = await _read(store, tenant, "clusterroles", _role, revision)
    roles = await _read(store, tenant, "roles", _role, revision)
    cluster_bindings = await _read(store, tenant, "clusterrolebindings", _binding, revision)
    bindings = await _read(store, tenant, "rolebindings", _binding, revision)
    return Policy(
        {metadata.name: rules for metadata, rules in cluster_roles},
        {(metadata.namespace, metadata.name): rules for metadata, rules in roles},
        [*cluster_bindings, *bindings],
    )


def is_rbac(key: str) -> bool:
    """Return whether a key belongs to an RBAC object."""
    return key.split("/", 2)[1:2] == [GROUP]


def apply(policy: Policy, change: Change) -> None:
    """Apply the change of one RBAC object. The cost depends on the object, not on the size of the tenant.

    An invalid object grants nothing.
    """
    _, _, plural, *place = change.key.split("/")
    namespace, name = ("", *place)[-2:]
    if plural in ROLES:
        role = _taken(change.key, change.value, _role)
        policy.set_role(namespace, name, None if role is None else role[1])
    elif plural in BINDINGS:
        policy.set_binding(namespace, name, _taken(change.key, change.value, _binding))


def _role(value: bytes) -> tuple[_Metadata, Rules]:
    read = _roles.decode(value)
    return read.metadata, _rules(bytes(read.rules))


def _binding(value: bytes) -> Binding:
    read = _bindings.decode(value)
    subjects = tuple(Subject(each.kind, each.name, each.namespace) for each in read.subjects or ())
    metadata = read.metadata
    return Binding(metadata.name, read.roleRef.kind, read.roleRef.name, subjects, metadata.namespace)


def _taken(key: str, value: bytes | None, make: Callable[[bytes], _Made]) -> _Made | None:
    """Decode an object. Returns None if it was deleted or is invalid."""
    if value is None:
        return None
    try:
        return make(value)
    except (msgspec.MsgspecError, TypeError, ValueError, KeyError, AttributeError) as error:
        _log.error("an RBAC object cannot be read and grants nothing", key=key, error=str(error))
        return None


async def _read(
    store: Store, tenant: str, plural: str, make: Callable[[bytes], _Made], revision: int
) -> list[_Made]:
    found: list[_Made] = []
    prefix, after = collection_key(tenant, GROUP, plural), ""
    while True:
        page = await store.range(prefix, after=after, limit=PAGE, revision=revision)
        made = (_taken(record.key, record.value, make) for record in page.records)
        found += [each for each in made if each is not None]
        if not page.more:
            return found
        after = page.records[-1].key
