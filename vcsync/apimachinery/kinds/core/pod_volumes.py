"""Validation of a Pod's volumes. Pure.

Source: `ValidateVolumes` and below in Kubernetes' `pkg/apis/core/validation`.
"""

from collections.abc import Callable

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.paths import descending, file_mode, no_backsteps
from vcsync.apimachinery.kinds.core import persistent_volume_claim, pod_projections, volume_sources
from vcsync.apimachinery.kinds.core.pod_projections import key_to_path
from vcsync.apimachinery.kinds.core.resources import milli
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    indexed,
    items,
    needed,
    number,
    one_of,
    outside,
    part,
    say,
    text,
)

Check = Callable[[str, Object], Findings]
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def needs(*keys: str) -> Check:
    """Return a rule: these members must be given."""

    def check(path: str, found: Object) -> Findings:
        for key in keys:
            yield from needed(found, key, path)

    return check


def host_path(path: str, found: Object) -> Findings:
    """Check a path on the node."""
    place = text(found, "path")
    if not place:
        yield errors.required(f"{path}.path")
        return
    yield from no_backsteps(f"{path}.path", place)
    if "type" in found:
        yield from one_of(f"{path}.type", text(found, "type"), _HOST_PATH_TYPES)


def _git(path: str, found: Object) -> Findings:
    yield from needed(found, "repository", path)
    yield from descending(f"{path}.directory", text(found, "directory"))


def partitioned(key: str) -> Check:
    """Return a rule for a disk with partitions; `key` is the member that names the disk."""

    def check(path: str, found: Object) -> Findings:
        yield from needed(found, key, path)
        partition = number(found, "partition")
        if not 0 <= partition <= 255:
            yield from say(f"{path}.partition", partition, ["must be between 1 and 255, inclusive"])

    return check


def _with_items(name: str) -> Check:
    def check(path: str, found: Object) -> Findings:
        yield from needed(found, name, path)
        yield from file_mode(f"{path}.defaultMode", found.get("defaultMode"))
        for each, here in indexed(found, "items", f"{path}.items"):
            yield from key_to_path(here, each)

    return check


def nfs(path: str, found: Object) -> Findings:
    """Check an NFS share."""
    yield from needed(found, "server", path)
    yield from needed(found, "path", path)
    if not text(found, "path").startswith("/"):
        yield errors.wrong(f"{path}.path", text(found, "path"), "must be an absolute path")


def fibre_channel(path: str, found: Object) -> Findings:
    """Check a Fibre Channel disk."""
    targets, wwids = items(found, "targetWWNs"), items(found, "wwids")
    if not targets and not wwids:
        yield errors.required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if targets and wwids:
        yield errors.wrong(
            f"{path}.targetWWNs", targets, "targetWWNs and wwids can not be specified simultaneously"
        )
    if targets and "lun" not in found:
        yield errors.required(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif targets:
        yield from say(f"{path}.lun", found["lun"], outside(number(found, "lun"), 0, 255))


def flocker(path: str, found: Object) -> Findings:
    """Check a Flocker dataset."""
    name, uuid = text(found, "datasetName"), text(found, "datasetUUID")
    if not name and not uuid:
        yield errors.required(path, "one of datasetName and datasetUUID is required")
    if name and uuid:
        yield errors.wrong(
            path, "resource", "datasetName and datasetUUID can not be specified simultaneously"
        )
    if "/" in name:
        yield errors.wrong(f"{path}.datasetName", name, "must not contain '/'")


def csi_driver_name(path: str, name: str) -> Findings:
    """Check the name of a CSI driver."""
    if not name:
        yield errors.required(path)
        return
    if names.size(name) > 63:
        yield errors.too_long(path, 63)
    yield from say(path, name, names.dns_subdomain(name.lower()))


def _csi(path: str, found: Object) -> Findings:
    yield from csi_driver_name(f"{path}.driver", text(found, "driver"))
    if "nodePublishSecretRef" in found:
        name = text(found["nodePublishSecretRef"], "name")
        if not name:
            yield errors.required(f"{path}.nodePublishSecretRef.name")
        else:
            # Upstream reports the finding at this path.
            yield from say(f"{path}.name", name, names.dns_subdomain(name))


def _image(path: str, found: Object, is_pod: bool) -> Findings:
    if is_pod:
        yield from needed(found, "reference", path)
    policy = text(found, "pullPolicy")
    if not policy:
        yield errors.required(f"{path}.pullPolicy")
    else:
        yield from one_of(f"{path}.pullPolicy", policy, _PULL_POLICIES)


def _ephemeral(path: str, found: Object) -> Findings:
    template = found.get("volumeClaimTemplate")
    if not isinstance(template, dict):
        yield errors.required(f"{path}.volumeClaimTemplate")
        return
    yield from persistent_volume_claim.template(f"{path}.volumeClaimTemplate", template)


def _nothing(_path: str, _found: Object) -> Findings:
    yield from ()


def _empty_dir(path: str, found: Object) -> Findings:
    limit = found.get("sizeLimit")
    if limit is not None and milli(limit) < 0:
        yield errors.not_allowed(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _cinder(path: str, found: Object) -> Findings:
    yield from needed(found, "volumeID", path)
    yield from volume_sources.secret_of(path, found, "name")


_ISCSI = "must be valid format starting with iqn, eui, or naa"
SOURCES: tuple[tuple[str, str, Check], ...] = (
    ("emptyDir", "emptyDir", _empty_dir),
    ("hostPath", "hostPath", host_path),
    ("gitRepo", "gitRepo", _git),
    ("gcePersistentDisk", "persistentDisk", partitioned("pdName")),
    ("awsElasticBlockStore", "awsElasticBlockStore", partitioned("volumeID")),
    ("secret", "secret", _with_items("secretName")),
    ("nfs", "nfs", nfs),
    ("iscsi", "iscsi", volume_sources.iscsi(_ISCSI, secret_named=False)),
    ("glusterfs", "glusterfs", needs("endpoints", "path")),
    ("flocker", "flocker", flocker),
    ("persistentVolumeClaim", "persistentVolumeClaim", needs("claimName")),
    ("rbd", "rbd", needs("monitors", "image")),
    ("cinder", "cinder", _cinder),
    ("cephfs", "cephfs", needs("monitors")),
    ("quobyte", "quobyte", volume_sources.quobyte),
    ("downwardAPI", "downwardAPI", pod_projections.downward_volume),
    ("fc", "fc", fibre_channel),
    ("flexVolume", "flexVolume", needs("driver")),
    ("configMap", "configMap", _with_items("name")),
    ("azureFile", "azureFile", needs("secretName", "shareName")),
    ("vsphereVolume", "vsphereVolume", needs("volumePath")),
    ("photonPersistentDisk", "photonPersistentDisk", needs("pdID")),
    ("portworxVolume", "portworxVolume", needs("volumeID")),
    ("azureDisk", "azureDisk", volume_sources.azure_disk),
    ("storageos", "storageos", volume_sources.storage_os("name")),
    ("projected", "projected", pod_projections.projected),
    ("scaleIO", "scaleIO", needs("gateway", "system", "volumeName")),
    ("csi", "csi", _csi),
    ("ephemeral", "ephemeral", _ephemeral),
    ("image", "image", _nothing),
)
_MISSPELT = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Spelling of a source in messages if the volume has more than one, where that is not the source's name."""


def _source(path: str, volume: Object, pod_name: str, is_pod: bool) -> Findings:
    given = 0
    for key, place, check in SOURCES:
        source = volume.get(key)
        if not isinstance(source, dict):
            continue
        given += 1
        if given > 1:
            yield errors.not_allowed(
                f"{path}.{_MISSPELT.get(key, key)}", "may not specify more than 1 volume type"
            )
        elif key == "image":
            yield from _image(f"{path}.image", source, is_pod)
        else:
            yield from check(f"{path}.{place}", source)
            if key == "ephemeral":
                yield from _claim_name(path, text(volume, "name"), pod_name)
    if not given:
        yield errors.required(path, "must specify a volume type")


def _claim_name(path: str, volume: str, pod_name: str) -> Findings:
    if pod_name and volume:
        claim = f"{pod_name}-{volume}"
        for message in names.dns_subdomain(claim):
            yield errors.wrong(f"{path}.name", volume, f'PVC name "{claim}": {message}')


def volumes(
    path: str, spec: Object, pod_name: str, *, is_pod: bool
) -> tuple[dict[str, Object], list[errors.FieldError]]:
    """Check a Pod's volumes.

    Returns:
        The well-formed volumes by name, and the findings.
    """
    good: dict[str, Object] = {}
    wrong: list[errors.FieldError] = []
    made = {
        f"{pod_name}-{text(each, 'name')}"
        for each in items(spec, "volumes")
        if pod_name and "ephemeral" in each
    }
    for each, here in indexed(spec, "volumes", path):
        name = text(each, "name")
        found = list(_source(here, each, pod_name, is_pod))
        if not name:
            found.append(errors.required(f"{here}.name"))
        else:
            found.extend(say(f"{here}.name", name, names.dns_label(name)))
        if name in good:
            found.append(errors.duplicate(f"{here}.name", name))
        if found:
            wrong.extend(found)
        else:
            good[name] = each
        claim = text(part(each, "persistentVolumeClaim"), "claimName")
        if claim in made:
            wrong.append(
                errors.wrong(
                    f"{here}.persistentVolumeClaim.claimName",
                    claim,
                    "must not reference a PVC that gets created for an ephemeral volume",
                )
            )
    return good, wrong
