"""Refuses creations in namespaces that do not exist or are being deleted, and deletions of protected objects.

Behaviour: apiserver's admission plug-in NamespaceLifecycle; Kubernetes' PriorityClass storage. Networks are vcsync's own.
"""

from vcsync.api.networks import DEFAULT_NETWORK, NETWORKS
from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import Cause
from vcsync.apimachinery.resources import object_key
from vcsync.apiserver.request import stored
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Store

_NAMESPACE = "this namespace may not be deleted"
_NETWORK = "this network may not be deleted: every tenant has it"
_CLASS = "this is a system priority class and cannot be deleted"
PROTECTED = {
    **{("", "namespaces", name): _NAMESPACE for name in ("default", "kube-system", "kube-public")},
    **{
        ("scheduling.k8s.io", "priorityclasses", f"system-{name}-critical"): _CLASS
        for name in ("cluster", "node")
    },
    (NETWORKS.group, NETWORKS.plural, DEFAULT_NETWORK): _NETWORK,
}
"""(group, plural, name) of objects that must not be deleted -> message of the refusal."""
UNCHECKED = frozenset({"localsubjectaccessreviews"})
"""Plurals of kinds that can be created in namespaces that do not exist."""


async def check_namespace(store: Store, scope: Scope, prefix: str = "") -> None:
    """Refuse a creation in a namespace that does not exist or is being deleted.

    Args:
        store: The store.
        scope: Scope of the request.
        prefix: The object's `generateName`, for the message, if the object has no name yet.

    Raises:
        StatusError: 404 if the namespace does not exist, 403 if it is being deleted.
    """
    resource = scope.kind.resource
    if not resource.namespaced or not scope.namespace or resource.plural in UNCHECKED:
        return
    record = await store.get_cached(object_key(scope.tenant, "", "namespaces", "", scope.namespace))
    if record is None:
        raise errors.not_found("namespaces", "", scope.namespace)
    if b'"deletionTimestamp":' in record.value and stored.deleting(record.value):
        error = errors.forbidden(
            resource.plural,
            resource.group,
            scope.name or prefix,
            f"unable to create new content in namespace {scope.namespace} because it is being terminated",
        )
        error.causes = (
            Cause(
                "NamespaceTerminating",
                f"namespace {scope.namespace} is being terminated",
                "metadata.namespace",
            ),
        )
        raise error


def check_deletion(scope: Scope) -> None:
    """Refuse the deletion of a protected object.

    Raises:
        StatusError: 403 if the object is in `PROTECTED`.
    """
    resource = scope.kind.resource
    why = PROTECTED.get((resource.group, resource.plural, scope.name))
    if why:
        raise errors.forbidden(resource.plural, resource.group, scope.name, why)
