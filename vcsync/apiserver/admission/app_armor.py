"""Copies AppArmor profiles of new Pods from annotations to fields, with a warning.

In kube-apiserver the strategy in `registry/core/pod/strategy.go` does this, after the mutating plug-ins and before
validation. This function runs at the same point.
"""

from vcsync.apimachinery.kinds.core.pod_annotations import APP_ARMOR
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.plugin import Lookup, creates, spec_of
from vcsync.apiserver.request.scope import Admission

MAX_PROFILE = 4095
"""Most bytes of a profile name."""
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_LOCAL = "localhost/"


async def app_armor_fields(admission: Admission, lookup: Lookup) -> None:
    """Set the profiles of containers from annotations."""
    del lookup
    annotations = ((admission.new or {}).get("metadata") or {}).get("annotations") or {}
    if not annotations or not creates(admission, "pods"):
        return
    spec = spec_of(admission)
    if (spec.get("os") or {}).get("name") == "windows":
        return
    whole = (spec.get("securityContext") or {}).get("appArmorProfile")
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            key = f"{APP_ARMOR}{container.get('name')}"
            context = container.get("securityContext") or {}
            if key not in annotations or context.get("appArmorProfile") is not None:
                continue
            profile = profile_of(annotations[key])
            if profile is not None and profile == whole:
                continue
            if profile is not None:
                container["securityContext"] = {**context, "appArmorProfile": profile}
            path = f"metadata.annotations[{key}]"
            admission.scope.warn([f'{path}: deprecated since v1.30; use the "appArmorProfile" field instead'])


def profile_of(annotation: str) -> Object | None:
    """Return the field for an annotation, or None if it would be invalid."""
    if annotation in _PLAIN:
        return {"type": _PLAIN[annotation]}
    name = annotation.removeprefix(_LOCAL) if annotation.startswith(_LOCAL) else ""
    if not name or name != name.strip() or len(name.encode()) > MAX_PROFILE:
        return None
    return {"type": "Localhost", "localhostProfile": name}


_PLAIN = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}
