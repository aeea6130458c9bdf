"""Connects admission policies to the authorizer and to the objects that are their parameters."""

from collections.abc import Mapping
from functools import cache

from vcsync.apimachinery.cel.authorizing import Account, Ask, Check, Decision
from vcsync.apimachinery.resources import collection_key, object_key
from vcsync.apimachinery.strategy import Object, User
from vcsync.apiserver.admission.framework.configurations import Configurations
from vcsync.apiserver.admission.framework.plugin import Lookup
from vcsync.apiserver.admission.framework.versions import Versions
from vcsync.apiserver.admission.policies.enforcement import AskOf, Policies
from vcsync.apiserver.admission.policies.permission import check_params
from vcsync.apiserver.apiextensions.catalogue import Catalogue
from vcsync.apiserver.authorization.rights import Rights
from vcsync.apiserver.discovery.served import builtin_kinds
from vcsync.apiserver.request import stored
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.resource import Kind
from vcsync.apiserver.request.scope import Admission, Admit
from vcsync.apiserver.storage.interface import Record, Store


def ask_of(rights: Rights) -> AskOf:
    """Return the authorizer for expressions that are evaluated on a write."""

    def of(admission: Admission) -> Ask:
        async def ask(account: Account, check: Check) -> Decision:
            found = await rights.decide(_caller(admission, account), check)
            return Decision(found.allowed, found.reason)

        return ask

    return of


class StoredParams:
    """Finds the parameters of policies in the store. Implements `policies.params.ParamSource`.

    Args:
        store: The store.
        catalogue: Custom kinds.
    """

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store = store
        self._catalogue = catalogue

    def kind(self, tenant: str, param_kind: Object) -> Kind | None:
        """Return the kind that a `paramKind` names, or None if it is unknown."""
        group, _, version = (param_kind.get("apiVersion") or "").rpartition("/")
        kind = param_kind.get("kind") or ""
        found = _builtin().get((group, version, kind))
        return found or self._catalogue.by_kind(tenant, group, version, kind)

    async def find(self, tenant: str, kind: Kind, namespace: str, name: str) -> list[Object]:
        """Return the served object of a name, if it exists, or all objects of a namespace if the name is empty."""
        resource = kind.resource
        records: list[Record]
        if name:
            key = object_key(tenant, resource.key_group, resource.plural, namespace, name)
            record, _ = await self._store.get(key)
            records = [] if record is None else [record]
        else:
            prefix = collection_key(tenant, resource.key_group, resource.plural, namespace)
            records = (await self._store.range(prefix)).records
        objects = [
            stored.unpack(each.value, each.revision, resource.kind, resource.storage_api_version)
            for each in records
        ]
        return [kind.served(each) for each in await kind.load(objects)]


def policies(store: Store, catalogue: Catalogue, configurations: Configurations, rights: Rights) -> Policies:
    """Return the enforcement of the policies of all tenants."""
    versions, params = Versions(catalogue), StoredParams(store, catalogue)
    return Policies(configurations, Lookup(store), versions, ask_of(rights), params)


def readable_params(store: Store, catalogue: Catalogue, rights: Rights) -> Admit:
    """Return a plug-in that refuses policies whose authors may not read their parameters."""

    async def allowed(caller: Caller, check: Check) -> bool:
        return (await rights.decide(caller, check)).allowed

    return check_params(Lookup(store), allowed, StoredParams(store, catalogue).kind)


@cache
def _builtin() -> Mapping[tuple[str, str, str], Kind]:
    """Return the built-in kinds by group, version and kind."""
    return {
        (each.resource.group, each.resource.version, each.resource.kind): each
        for each in builtin_kinds().values()
    }


def _caller(admission: Admission, account: Account) -> Caller:
    """Return the caller that an expression names for the authorizer."""
    if account is None:
        caller: Caller = admission.scope.caller
        return caller
    namespace, name = account
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return Caller(User(f"system:serviceaccount:{namespace}:{name}", groups=groups), admission.scope.tenant)
