"""Validation of the volume sources that Pods and PersistentVolumes share. Pure.

Source: `validateISCSIVolumeSource`, `validateAzureDisk` and their like in Kubernetes' `pkg/apis/core/validation`.
"""

from collections.abc import Callable

from vcsync.apimachinery import errors
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, needed, number, one_of, outside, say, text
from vcsync.patterns.linear import linear

_ISCSI_NAMES = {
    "iqn": linear(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9\-.]+)(:[^,;*&$|\s]+)$"),
    "eui": linear(r"^eui.[A-Za-z0-9]{16}$"),
    "naa": linear(r"^naa.[A-Za-z0-9]{32}$"),
}
_FORMAT = "must be valid format"
_PAIRS = "must be a host:port pair or multiple pairs separated by commas"
_MANAGED = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def iscsi(starting: str, *, secret_named: bool) -> Callable[[str, Object], Findings]:
    """Return the rule for an iSCSI disk.

    Args:
        starting: the message if a name has none of the known prefixes.
        secret_named: whether a reference to a Secret must have a name.
    """

    def check(path: str, found: Object) -> Findings:
        yield from needed(found, "targetPortal", path)
        yield from needed(found, "iqn", path)
        if text(found, "iqn"):
            yield from _iscsi_name(f"{path}.iqn", text(found, "iqn"), starting)
        yield from say(f"{path}.lun", number(found, "lun"), outside(number(found, "lun"), 0, 255))
        secret = found.get("secretRef")
        if (found.get("chapAuthDiscovery") or found.get("chapAuthSession")) and secret is None:
            yield errors.required(f"{path}.secretRef")
        if secret_named and secret is not None:
            yield from needed(secret, "name", f"{path}.secretRef")
        if "initiatorName" in found:
            yield from _iscsi_name(f"{path}.initiatorname", text(found, "initiatorName"), starting)

    return check


def _iscsi_name(path: str, name: str, starting: str) -> Findings:
    pattern = _ISCSI_NAMES.get(name[:3])
    if pattern is None:
        yield errors.wrong(path, name, starting)
    elif not pattern.search(name):
        yield errors.wrong(path, name, _FORMAT)


def azure_disk(path: str, found: Object) -> Findings:
    """Check an Azure disk."""
    yield from needed(found, "diskName", path)
    yield from needed(found, "diskURI", path)
    if "cachingMode" in found:
        yield from one_of(f"{path}.cachingMode", found["cachingMode"], ("None", "ReadOnly", "ReadWrite"))
    if "kind" not in found:
        return
    yield from one_of(f"{path}.kind", found["kind"], ("Dedicated", "Managed", "Shared"))
    address = text(found, "diskURI")
    start, example = ("/subscriptions/", _MANAGED) if found["kind"] == "Managed" else ("https://", _BLOB)
    if not address.startswith(start):
        yield errors.not_supported(f"{path}.diskURI", address, (example,))


def quobyte(path: str, found: Object) -> Findings:
    """Check a Quobyte volume."""
    registry = text(found, "registry")
    if not registry:
        yield errors.required(f"{path}.registry", _PAIRS)
    elif names.size(text(found, "tenant")) > 64:
        yield errors.required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters")
    else:
        for each in registry.split(","):
            if not _is_pair(each):
                yield errors.wrong(f"{path}.registry", registry, _PAIRS)
    yield from needed(found, "volume", path)


def _is_pair(value: str) -> bool:
    """Return whether Go's `net.SplitHostPort` accepts a value."""
    host, colon, port = value.rpartition(":")
    if not colon or "[" in port or "]" in port:
        return False
    if host.startswith("["):
        return host.endswith("]") and not set("[]") & set(host[1:-1])
    return not set(":[]") & set(host)


def secret_of(path: str, found: Object, *keys: str) -> Findings:
    """Check that a reference to a Secret, if given, has these members."""
    secret = found.get("secretRef")
    if isinstance(secret, dict):
        for key in keys:
            yield from needed(secret, key, f"{path}.secretRef")


def storage_os(*keys: str) -> Callable[[str, Object], Findings]:
    """Return the rule for a StorageOS volume; `keys` are required in the reference to its Secret."""

    def check(path: str, found: Object) -> Findings:
        yield from needed(found, "volumeName", path)
        for key in ("volumeName", "volumeNamespace"):
            value = text(found, key)
            if value:
                yield from say(f"{path}.{key}", value, names.dns_label(value))
        yield from secret_of(path, found, *keys)

    return check
