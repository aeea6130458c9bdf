"""Reads the objects of a tenant that determine where requests for logs, streams and ports of Pods go."""

from dataclasses import replace

import msgspec

from vcsync.apimachinery import errors
from vcsync.apiserver.discovery.served import Spaces
from vcsync.apiserver.kubelets.super_clusters import TenantPods
from vcsync.apiserver.registry.reading import Reader
from vcsync.apiserver.request.scope import Scope
from vcsync.tenancy.proof import IDENTITY_NAMESPACE


class _Identified(msgspec.Struct):
    uid: str = ""


class _Namespace(msgspec.Struct):
    metadata: _Identified = msgspec.field(default_factory=_Identified)


class StreamObjects:
    """Reads objects.

    Args:
        reader: Reads them from the store.
        spaces: Finds their kinds.
    """

    def __init__(self, reader: Reader, spaces: Spaces) -> None:
        self._reader = reader
        self._spaces = spaces

    async def read(self, scope: Scope, plural: str, name: str, namespace: str = "") -> bytes:
        """Return an object of the tenant, of the core group.

        Args:
            scope: Names the tenant.
            plural: Plural of the kind.
            name: Name of the object.
            namespace: Its namespace. Empty: it is in none.

        Raises:
            StatusError: 404.
        """
        kind = self._spaces.kind(scope.tenant, "", "v1", plural)
        if kind is None:
            raise errors.page_not_found()
        wanted = replace(scope, kind=kind, namespace=namespace, name=name, subresource="")
        return (await self._reader.get(wanted)).value

    async def tenant_pods(self, scope: Scope) -> TenantPods:
        """Return the tenant and namespace of a scope as the pool knows them.

        Raises:
            StatusError: 404, the tenant has no identity.
        """
        identity = msgspec.json.decode(
            await self.read(scope, "namespaces", IDENTITY_NAMESPACE), type=_Namespace
        )
        return TenantPods(scope.tenant, identity.metadata.uid, scope.namespace)
