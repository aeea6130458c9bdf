"""Warns about objects and changes that have no effect on the clusters where the tenant's Pods run.

vcsync's own plug-in. It does not apply to tenants with their own controllers or nodes. Changes of virtual nodes have no
effect either; users of tenants cannot make them.
"""

from vcsync.api.without_effect import DEBUGGED, DEFAULT_SCHEDULER, SCHEDULER_NAME, WITHOUT_EFFECT
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.daemon_sets import only_virtual_nodes
from vcsync.apiserver.admission.framework.plugin import Lookup
from vcsync.apiserver.admission.pod_security.plugin import TEMPLATES, template_of
from vcsync.apiserver.request.scope import Admission


async def warn_of_no_effect(admission: Admission, lookup: Lookup) -> None:
    """Add a Warning header if the write has no effect."""
    scope = admission.scope
    resource = scope.kind.resource
    if admission.new is None:
        return
    of = (resource.group, resource.plural)
    warnings: list[str] = []
    if (*of, scope.subresource) == ("", "pods", "ephemeralcontainers"):
        warnings = [DEBUGGED]
    elif scope.subresource:
        return
    elif admission.operation == "CREATE" and of in WITHOUT_EFFECT:
        warnings = [WITHOUT_EFFECT[of]]
    elif of == ("", "pods") or of in TEMPLATES:
        asked, before = _scheduler(of, admission.new), _scheduler(of, admission.old or {})
        warnings = [SCHEDULER_NAME] if asked not in (DEFAULT_SCHEDULER, before) else []
    if warnings and await only_virtual_nodes(scope.tenant, lookup):
        scope.warn(warnings)


def _scheduler(of: tuple[str, str], obj: Object) -> str:
    """Return the scheduler that a Pod or a Pod template names."""
    pod = template_of(of, obj) if of in TEMPLATES else obj
    return (pod.get("spec") or {}).get("schedulerName") or DEFAULT_SCHEDULER
