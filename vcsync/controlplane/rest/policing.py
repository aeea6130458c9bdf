"""What admission policies ask of everything else: the authorizer, and objects as parameters."""

from collections.abc import Mapping
from functools import cache

from vcsync.controlplane.admission.configurations import Configurations
from vcsync.controlplane.admission.plugin import Lookup
from vcsync.controlplane.admission.policies.enforcement import AskOf, Policies
from vcsync.controlplane.admission.policies.permission import ParamKind, check_params
from vcsync.controlplane.admission.versions import Versions
from vcsync.controlplane.behaviour import Object, User
from vcsync.controlplane.cel.authorizing import Account, Ask, Check, Decision
from vcsync.controlplane.crd.catalogue import Catalogue
from vcsync.controlplane.identity.caller import Caller
from vcsync.controlplane.resources import collection_key, object_key
from vcsync.controlplane.rest import stored
from vcsync.controlplane.rest.kind import Kind
from vcsync.controlplane.rest.rights import Rights
from vcsync.controlplane.rest.scope import Admission, Admit
from vcsync.controlplane.rest.space import builtin_kinds
from vcsync.controlplane.store.interface import Record, Store


def ask_of(rights: Rights) -> AskOf:
    """Return the authorizer that expressions see of a write."""

    def of(asked: Admission) -> Ask:
        async def ask(account: Account, check: Check) -> Decision:
            found = await rights.decide(_caller(asked, account), check)
            return Decision(found.allowed, found.reason)

        return ask

    return of


def policies(store: Store, catalogue: Catalogue, configurations: Configurations, rights: Rights) -> Policies:
    """Make what enforces all tenants' policies."""

    async def find_params(tenant: str, kind: Kind, namespace: str, name: str) -> list[Object]:
        resource = kind.resource
        records: list[Record]
        if name:
            key = object_key(tenant, resource.key_group, resource.plural, namespace, name)
            record, _ = await store.get(key)
            records = [] if record is None else [record]
        else:
            prefix = collection_key(tenant, resource.key_group, resource.plural, namespace)
            records = (await store.range(prefix)).records
        objects = [
            stored.unpack(each.value, each.revision, resource.kind, resource.storage_api_version)
            for each in records
        ]
        return [kind.served(each) for each in await kind.load(objects)]

    return Policies(
        configurations,
        Lookup(store),
        Versions(catalogue),
        ask_of(rights),
        _param_kind(catalogue),
        find_params,
    )


def readable_params(store: Store, catalogue: Catalogue, rights: Rights) -> Admit:
    """Return what refuses policies whose authors may not read the parameters."""

    async def allowed(caller: Caller, check: Check) -> bool:
        return (await rights.decide(caller, check)).allowed

    return check_params(Lookup(store), allowed, _param_kind(catalogue))


def _param_kind(catalogue: Catalogue) -> ParamKind:
    def found(tenant: str, wanted: Object) -> Kind | None:
        group, _, version = (wanted.get("apiVersion") or "").rpartition("/")
        kind = wanted.get("kind") or ""
        return _builtin().get((group, version, kind)) or catalogue.by_kind(tenant, group, version, kind)

    return found


@cache
def _builtin() -> Mapping[tuple[str, str, str], Kind]:
    """Return the built-in kinds by group, version and kind."""
    return {
        (each.resource.group, each.resource.version, each.resource.kind): each
        for each in builtin_kinds().values()
    }


def _caller(asked: Admission, account: Account) -> Caller:
    """Return for whom the authorizer is asked."""
    if account is None:
        caller: Caller = asked.scope.caller
        return caller
    namespace, name = account
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return Caller(User(f"system:serviceaccount:{namespace}:{name}", groups=groups), asked.scope.tenant)
