"""Objects are created only in namespaces that stand and stay (apiserver's admission plug-in NamespaceLifecycle)."""

from vcsync.controlplane import errors
from vcsync.controlplane.errors import Cause
from vcsync.controlplane.resources import object_key
from vcsync.controlplane.rest import stored
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.store.interface import Store

_NAMESPACE = "this namespace may not be deleted"
_CLASS = "this is a system priority class and cannot be deleted"
PROTECTED = {
    **{("", "namespaces", name): _NAMESPACE for name in ("default", "kube-system", "kube-public")},
    **{
        ("scheduling.k8s.io", "priorityclasses", f"system-{name}-critical"): _CLASS
        for name in ("cluster", "node")
    },
}
"""What everybody counts on, and what is said of it."""
EVERYWHERE = frozenset({"localsubjectaccessreviews"})


async def check_namespace(store: Store, scope: Scope, prefix: str = "") -> None:
    """Refuse creation where nothing can be created; `prefix`: of the name, if there is none yet.

    Raises:
        StatusError: 404, 403.
    """
    resource = scope.kind.resource
    if not resource.namespaced or not scope.namespace or resource.plural in EVERYWHERE:
        return
    record = await store.known(object_key(scope.tenant, "", "namespaces", "", scope.namespace))
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
    """Refuse to delete what everybody counts on.

    Raises:
        StatusError: 403.
    """
    resource = scope.kind.resource
    why = PROTECTED.get((resource.group, resource.plural, scope.name))
    if why:
        raise errors.forbidden(resource.plural, resource.group, scope.name, why)
