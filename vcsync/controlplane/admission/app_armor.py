"""AppArmor profiles of a new Pod that are told in annotations only become fields, with a warning.

No plug-in of kube-apiserver's but its `registry/core/pod/strategy.go` does it, after the plug-ins that change objects and
before the kind's rules: that is where this stands.
"""

from vcsync.controlplane.admission.plugin import Lookup, creates, spec_of
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.kinds.pod_annotations import APP_ARMOR
from vcsync.controlplane.rest.scope import Admission

MAX_PROFILE = 4095
"""Bytes of a profile's name."""
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_LOCAL = "localhost/"


async def app_armor_fields(admission: Admission, lookup: Lookup) -> None:
    """Give containers the profiles that annotations name."""
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
            told = f'metadata.annotations[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'
            admission.scope.warn([told])


def profile_of(annotation: str) -> Object | None:
    """Return the field that an annotation stands for; None: there is none that would be valid."""
    if annotation in _PLAIN:
        return {"type": _PLAIN[annotation]}
    name = annotation.removeprefix(_LOCAL) if annotation.startswith(_LOCAL) else ""
    if not name or name != name.strip() or len(name.encode()) > MAX_PROFILE:
        return None
    return {"type": "Localhost", "localhostProfile": name}


_PLAIN = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}
