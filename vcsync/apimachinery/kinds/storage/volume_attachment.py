"""The kind VolumeAttachment: defaults, validation, status and columns. Pure.

Source: Kubernetes' `pkg/apis/storage/validation`,
`pkg/registry/storage/volumeattachment` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.persistent_volume import default_sources, inline_spec
from vcsync.apimachinery.kinds.core.pod_volumes import csi_driver_name
from vcsync.apimachinery.kinds.storage.parameters import BIGGEST
from vcsync.apimachinery.patch.resets import SPEC_AND_METADATA, STATUS
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import IMMUTABLE, Findings, Object, part, say, text
from vcsync.apimachinery.wire import cells


def _attachment(found: Object) -> Findings:
    spec = part(found, "spec")
    yield from csi_driver_name("spec.attacher", text(spec, "attacher"))
    source = part(spec, "source")
    inline, volume = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    message = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if inline is None and volume is None:
        yield errors.required("spec.source", message)
    elif inline is not None and volume is not None:
        yield errors.not_allowed("spec.source", message)
    elif inline is not None:
        yield from inline_spec("spec.source.inlineVolumeSpec", inline)
    elif not volume:
        yield errors.required(
            "spec.source.persistentVolumeName", "must specify non empty persistentVolumeName"
        )
    node = text(spec, "nodeName")
    yield from say("spec.nodeName", node, names.dns_subdomain(node))
    yield from _attachment_status(part(found, "status"))
    if volume is not None:
        yield from say("spec.source.persistentVolumeName", volume, names.dns_subdomain(volume))


def _attachment_status(status: Object) -> Findings:
    metadata = part(status, "attachmentMetadata")
    if sum(names.size(key) + names.size(value) for key, value in metadata.items()) > BIGGEST:
        yield errors.too_long("status.attachmentMetadata", BIGGEST)
    for key in ("attachError", "detachError"):
        error = part(status, key)
        if names.size(text(error, "message")) > 1024:
            yield errors.too_long(f"status.{key}.message", BIGGEST)
        code = error.get("errorCode")
        if code is not None and code < 0:
            yield errors.wrong(f"status.{key}.errorCode", code, "must be between 0 and 2147483647, inclusive")


def _attachment_update(new: Object, old: Object) -> list[FieldError]:
    found, spec = list(_attachment(new)), part(new, "spec")
    if spec != part(old, "spec"):
        source = part(spec, "source")
        shown_source = {
            "PersistentVolumeName": source.get("persistentVolumeName"),
            "InlineVolumeSpec": source.get("inlineVolumeSpec"),
        }
        attacher, node = text(spec, "attacher"), text(spec, "nodeName")
        shown = {"Attacher": attacher, "Source": shown_source, "NodeName": node}
        found.append(errors.wrong("spec", shown, IMMUTABLE))
    return found


def _attachment_default(found: Object) -> None:
    inline = part(found, "spec", "source").get("inlineVolumeSpec")
    if isinstance(inline, dict):
        default_sources(inline)


def _attachment_create(new: Object, _: Context) -> None:
    new["status"] = {"attached": False}


KIND = Kind(
    group="storage.k8s.io",
    kind="VolumeAttachment",
    plural="volumeattachments",
    status=True,
    unconditional_update=False,
    default=_attachment_default,
    prepare_create=_attachment_create,
    validate=lambda found: list(_attachment(found)),
    validate_update=_attachment_update,
    status_validate=_attachment_update,
    columns={
        "Name": cells.name,
        "Attacher": cells.field("spec.attacher"),
        "PV": cells.field("spec.source.persistentVolumeName"),
        "Node": cells.field("spec.nodeName"),
        "Attached": cells.field("status.attached", False),
        "Age": cells.age,
    },
    resets={"": STATUS, "status": SPEC_AND_METADATA},
    status_keeps_metadata=True,
    repeats_metadata_findings=False,
    returned_on_deletion=True,
)
