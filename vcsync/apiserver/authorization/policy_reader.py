"""Reads the policy of a tenant from the store, and applies changes of its roles and bindings."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import structlog

from vcsync.apimachinery.resources import collection_key
from vcsync.apiserver.authorization.escalation import BINDINGS, ROLES
from vcsync.apiserver.authorization.policy import GROUP, Binding, Policy, Rules, Subject
from vcsync.apiserver.authorization.rbac import parse_rules
from vcsync.apiserver.storage.interface import Change, Store
from vcsync.objects.budget import Budget
from vcsync.objects.text_cache import cache_short_texts
from vcsync.process.loop_turns import rest

PAGE = 500
BYTES_PER_STEP = 30
"""Bytes of an object that are read in about a microsecond."""
MARK = f"/{GROUP}/"
"""Part of the keys of RBAC objects, after the tenant."""


_log = structlog.get_logger(__name__)


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""


class _Role(msgspec.Struct):
    metadata: _Metadata
    rules: msgspec.Raw = msgspec.Raw(b"null")


class _RoleRef(msgspec.Struct):
    kind: str = ""
    name: str = ""


class _Binding(msgspec.Struct):
    metadata: _Metadata
    roleRef: _RoleRef  # noqa: N815
    subjects: tuple[Subject, ...] | None = None


_Made = TypeVar("_Made")
_roles: msgspec.json.Decoder[_Role] = msgspec.json.Decoder(_Role)
_plain_rules: msgspec.json.Decoder[Rules | None] = msgspec.json.Decoder(Rules | None)
"""Decodes rules without null, which are nearly all, in a tenth of the time."""
_bindings: msgspec.json.Decoder[_Binding] = msgspec.json.Decoder(_Binding)


@cache_short_texts(1024, 32 * 1024)
def _rules(raw: bytes) -> Rules:
    """Parse the rules of a role. Tenants with equal roles share the result."""
    try:
        return _plain_rules.decode(raw) or ()
    except msgspec.ValidationError:
        rules: list[dict[str, Any]] | None = msgspec.json.decode(raw)
        return parse_rules(rules)


async def read_policy(store: Store, tenant: str, revision: int) -> Policy:
    """Read the RBAC objects of a tenant at one revision, in turns with other tasks. An invalid object grants nothing.

    Raises:
        StoreError: The store cannot be read.
    """
    policy, budget = Policy({}, {}, ()), Budget("the policy of a tenant")
    for plural in (*sorted(ROLES), *sorted(BINDINGS)):
        prefix, after, more = collection_key(tenant, GROUP, plural), "", True
        while more:
            page = await store.range(prefix, after=after, limit=PAGE, revision=revision)
            for record in page.records:
                _set(policy, record.key, record.value)
                budget.spend(1 + len(record.value) // BYTES_PER_STEP)
                await rest(budget)
            after, more = page.records[-1].key if page.records else "", page.more
    return policy


def is_rbac(key: str) -> bool:
    """Return whether a key belongs to an RBAC object."""
    return key.split("/", 2)[1:2] == [GROUP]


def apply(policy: Policy, change: Change) -> None:
    """Apply the change of one RBAC object. The cost depends on the object, not on the size of the tenant.

    An invalid object grants nothing.
    """
    _set(policy, change.key, change.value)


def _set(policy: Policy, key: str, value: bytes | None) -> None:
    _, _, plural, *place = key.split("/")
    namespace, name = ("", *place)[-2:]
    if plural in ROLES:
        policy.set_role(namespace, name, _taken(key, value, _role))
    elif plural in BINDINGS:
        policy.set_binding(namespace, name, _taken(key, value, _binding))


def _role(value: bytes) -> Rules:
    return _rules(bytes(_roles.decode(value).rules))


def _binding(value: bytes) -> Binding:
    read = _bindings.decode(value)
    metadata = read.metadata
    return Binding(
        metadata.name, read.roleRef.kind, read.roleRef.name, read.subjects or (), metadata.namespace
    )


def _taken(key: str, value: bytes | None, make: Callable[[bytes], _Made]) -> _Made | None:
    """Decode an object. Returns None if it was deleted or is invalid."""
    if value is None:
        return None
    try:
        return make(value)
    except (msgspec.MsgspecError, TypeError, ValueError, KeyError, AttributeError) as error:
        _log.error("an RBAC object cannot be read and grants nothing", key=key, error=str(error))
        return None
