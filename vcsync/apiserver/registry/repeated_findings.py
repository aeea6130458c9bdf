"""Repetition of findings on metadata in a refusal.

kube-apiserver validates the metadata of every object. The validation of most kinds does so again, and clients get
the same cause twice. Kinds differ in which of the two they validate (`ValidateObjectMeta` and `ValidateObjectMetaUpdate`
of core's and of apimachinery's validation); each kind declares it.
"""

from vcsync.apimachinery.kinds.all_kinds import by_plural
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.resources import Resource


def _declared(resource: Resource) -> Kind | None:
    return None if resource.custom else by_plural(resource.group, resource.plural)


def checks_finalizers(resource: Resource) -> bool:
    """Return whether finalizers need a domain, unless they are Kubernetes' own."""
    declared = _declared(resource)
    return not resource.custom and (declared is None or not declared.any_finalizers)


def times_whole(resource: Resource) -> int:
    """Return how often the kind's own validation of an update validates all metadata again (`ValidateObjectMeta`).

    Finalizers are validated by that, and by a kind's own `ValidateObjectMetaUpdate`: at least once altogether.
    """
    declared = _declared(resource)
    again = int(declared is not None and declared.repeats_finalizer_findings)
    if not checks_finalizers(resource):
        return again
    return 1 + again - (times_changed(resource) - 1)


def after_rules(resource: Resource) -> bool:
    """Return whether an update repeats the findings on changed metadata only after the rules of a create."""
    declared = _declared(resource)
    return declared is not None and declared.repeats_metadata_after_rules


def times_changed(resource: Resource) -> int:
    """Return how often findings on metadata that an update must not change appear."""
    declared = _declared(resource)
    return 2 if declared is None or declared.repeats_metadata_findings else 1
