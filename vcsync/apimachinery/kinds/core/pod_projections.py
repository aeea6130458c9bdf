"""Validation of projected volumes and of references to a Pod's own fields. Pure.

Source: `validateProjectionSources`, `validateObjectFieldSelector` and around in Kubernetes'
`pkg/apis/core/validation`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.paths import file_mode, local
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    indexed,
    items,
    needed,
    number,
    say,
    selector,
    text,
)

ENVIRONMENT_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_SELECTABLE = frozenset(
    {
        *ENVIRONMENT_FIELDS,
        "metadata.annotations",
        "metadata.labels",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.phase",
    }
)
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE = ("limits.hugepages-", "requests.hugepages-")
_SIZES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_DIVISORS = {
    "cpu": (("1m", "1"), "cpu"),
    "memory": (_SIZES, "memory"),
    "ephemeral-storage": (_SIZES, "local ephemeral storage"),
}
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_CONFLICT = "conflicting duplicate paths"


def key_to_path(path: str, found: Object) -> Findings:
    """Check the mapping of a key to a file."""
    yield from needed(found, "key", path)
    yield from needed(found, "path", path)
    yield from local(f"{path}.path", text(found, "path"))
    yield from file_mode(f"{path}.mode", found.get("mode"))


def field_reference(path: str, found: Object, fields: tuple[str, ...]) -> Findings:
    """Check a reference to one of the Pod's own fields."""
    version, place = text(found, "apiVersion"), text(found, "fieldPath")
    if not version:
        yield errors.required(f"{path}.apiVersion")
        return
    if not place:
        yield errors.required(f"{path}.fieldPath")
        return
    name, subscripted, key = _subscripted(place)
    if version != "v1":
        why = f"unsupported pod version: {version}"
        yield errors.wrong(f"{path}.fieldPath", place, f"error converting fieldPath: {why}")
    elif subscripted and name not in ("metadata.annotations", "metadata.labels"):
        why = f"field label does not support subscript: {place}"
        yield errors.wrong(f"{path}.fieldPath", place, f"error converting fieldPath: {why}")
    elif name not in _SELECTABLE:
        why = f"field label not supported: {place}"
        yield errors.wrong(f"{path}.fieldPath", place, f"error converting fieldPath: {why}")
    elif subscripted:
        yield from _subscript(path, name, key)
    elif name not in fields:
        yield errors.not_supported(f"{path}.fieldPath", name, fields)


def _subscripted(place: str) -> tuple[str, bool, str]:
    """Split `metadata.labels['key']`: field, whether there is a key, key. Source: `SplitMaybeSubscriptedPath`."""
    if not place.endswith("']"):
        return place, False, ""
    field, bracket, key = place[:-2].partition("['")
    return (field, True, key) if field and bracket else (place, False, "")


def _subscript(path: str, name: str, key: str) -> Findings:
    if name == "metadata.annotations":
        yield from say(path, key.lower(), names.qualified_name(key.lower()))
    elif name == "metadata.labels":
        yield from say(path, key, names.qualified_name(key))
    else:
        yield errors.wrong(path, name, "does not support subscript")


def resource_reference(path: str, found: Object, *, volume: bool) -> Findings:
    """Check a reference to one of the Pod's requests or limits."""
    name = text(found, "resource")
    if volume and not text(found, "containerName"):
        yield errors.required(f"{path}.containerName")
    elif not name:
        yield errors.required(f"{path}.resource")
    elif name not in _RESOURCES and not name.startswith(_HUGE):
        yield errors.not_supported(f"{path}.resource", name, _RESOURCES)
    divisor = found.get("divisor", "0")
    if divisor == "0":
        return
    choices, what = _DIVISORS.get(name.partition(".")[2], (_SIZES, "hugepages"))
    if (name in _RESOURCES or name.startswith(_HUGE)) and divisor not in choices:
        message = "1m and 1" if what == "cpu" else ", ".join(_SIZES)
        yield errors.wrong(
            f"{path}.divisor", name, f"only divisor's values {message} are supported with the {what} resource"
        )


def _downward_file(path: str, found: Object) -> Findings:
    yield from needed(found, "path", path)
    yield from local(f"{path}.path", text(found, "path"))
    field, resource = found.get("fieldRef"), found.get("resourceFieldRef")
    if isinstance(field, dict):
        yield from field_reference(f"{path}.fieldRef", field, VOLUME_FIELDS)
        if isinstance(resource, dict):
            yield errors.wrong(
                path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"
            )
    elif isinstance(resource, dict):
        yield from resource_reference(f"{path}.resourceFieldRef", resource, volume=True)
    else:
        yield errors.required(path, "one of fieldRef and resourceFieldRef is required")
    yield from file_mode(f"{path}.mode", found.get("mode"))


def downward_volume(path: str, found: Object) -> Findings:
    """Check a downward API volume."""
    yield from file_mode(f"{path}.defaultMode", found.get("defaultMode"))
    for each in items(found, "items"):
        yield from _downward_file(path, each)


def projected(path: str, found: Object) -> Findings:
    """Check a projected volume."""
    yield from file_mode(f"{path}.defaultMode", found.get("defaultMode"))
    taken: set[str] = set()
    for source, here in indexed(found, "sources", f"{path}.sources"):
        given = 0
        for key, check in _PROJECTIONS.items():
            if isinstance(source.get(key), dict):
                given += 1
                yield from check(path, f"{here}.{key}", source[key], taken)
        if given > 1:
            yield errors.not_allowed(here, "may not specify more than 1 volume type per source")


def _take(path: str, place: str, message: str, taken: set[str]) -> Findings:
    if place in taken:
        yield errors.wrong(path, message, _CONFLICT)
    taken.add(place)


def _keys(path: str, here: str, found: Object, taken: set[str]) -> Findings:
    yield from needed(found, "name", here)
    for each, place in indexed(found, "items", f"{here}.items"):
        yield from key_to_path(place, each)
        if text(each, "path"):
            yield from _take(path, text(each, "path"), text(found, "name"), taken)


def _downward(path: str, here: str, found: Object, taken: set[str]) -> Findings:
    for each in items(found, "items"):
        yield from _downward_file(here, each)
        if text(each, "path"):
            yield from _take(path, text(each, "path"), text(each, "path"), taken)


def _token(path: str, here: str, found: Object, _taken: set[str]) -> Findings:
    seconds = number(found, "expirationSeconds")
    if seconds < 600:
        yield errors.wrong(
            f"{here}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
        )
    if seconds > 1 << 32:
        yield errors.wrong(
            f"{here}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"
        )
    yield from needed(found, "path", path)
    if text(found, "path"):
        yield from local(f"{path}.path", text(found, "path"))


def _trust_bundle(path: str, here: str, found: Object, taken: set[str]) -> Findings:
    if "name" in found and "signerName" in found:
        yield errors.wrong(here, found, "only one of name and signerName may be used")
    elif "name" in found:
        yield from needed(found, "name", here, "must be a valid object name")
        if "labelSelector" in found:
            yield errors.wrong(
                f"{here}.labelSelector",
                found["labelSelector"],
                "labelSelector must be unset if name is specified",
            )
    elif "signerName" in found:
        yield from needed(found, "signerName", here, "must be a valid signer name")
        yield from selector(f"{here}.labelSelector", found.get("labelSelector"))
    else:
        yield errors.required(here, "either name or signerName must be specified")
    yield from needed(found, "path", here)
    yield from local(f"{here}.path", text(found, "path"))
    yield from _take(path, text(found, "path"), text(found, "path"), taken)


def _certificate(path: str, here: str, found: Object, taken: set[str]) -> Findings:
    if text(found, "keyType") not in _KEY_TYPES:
        yield errors.not_supported(f"{here}.keyType", text(found, "keyType"), _KEY_TYPES)
    given = 0
    for key in ("credentialBundlePath", "keyPath", "certificateChainPath"):
        place = text(found, key)
        if place:
            given += 1
            yield from local(f"{here}.{key}", place)
            yield from _take(path, place, place, taken)
    if not given:
        yield errors.required(
            here, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        )


_PROJECTIONS = {
    "secret": _keys,
    "configMap": _keys,
    "downwardAPI": _downward,
    "serviceAccountToken": _token,
    "clusterTrustBundle": _trust_bundle,
    "podCertificate": _certificate,
}
