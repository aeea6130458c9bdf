"""The kind ResourceSlice: generation, validation, selectable fields and columns. Pure.

Source: Kubernetes' `pkg/apis/resource/validation`,
`pkg/registry/resource/resourceslice` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.pod_scheduling import node_selector
from vcsync.apimachinery.kinds.core.pod_volumes import csi_driver_name
from vcsync.apimachinery.kinds.resource import device_slices, device_status
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    immutable,
    indexed,
    items,
    number,
    part,
    say,
    text,
)
from vcsync.apimachinery.wire import cells


def _slice(found: Object, old: Object | None = None) -> Findings:
    spec = part(found, "spec")
    yield from csi_driver_name("spec.driver", text(spec, "driver"))
    pool = part(spec, "pool")
    yield from device_status.pool_name("spec.pool.name", text(pool, "name"))
    if number(pool, "resourceSliceCount") <= 0:
        yield errors.wrong(
            "spec.pool.resourceSliceCount", number(pool, "resourceSliceCount"), "must be greater than zero"
        )
    if number(pool, "generation") < 0:
        message = "must be greater than or equal to zero"
        yield errors.wrong("spec.pool.generation", number(pool, "generation"), message)
    yield from _nodes(spec)
    if "sharedCounters" in spec and "devices" in spec:
        yield errors.wrong("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    devices, most = items(spec, "devices"), device_slices.most_devices(spec)
    if len(devices) > most:
        yield errors.too_many("spec.devices", len(devices), most)
    else:
        before = {text(each, "name"): each for each in items(part(old, "spec"), "devices")}
        per_device = bool(spec.get("perDeviceNodeSelection"))
        for each, here in indexed(spec, "devices", "spec.devices"):
            yield from device_slices.device(here, each, before.get(text(each, "name")), per_device=per_device)
        seen: set[str] = set()
        for each, here in indexed(spec, "devices", "spec.devices"):
            if text(each, "name") in seen:
                yield errors.duplicate(here, text(each, "name"))
            seen.add(text(each, "name"))
    yield from device_slices.counter_sets("spec.sharedCounters", spec)


def _nodes(spec: Object) -> Findings:
    node = text(spec, "nodeName")
    if node:
        yield from say("spec.nodeName", node, names.dns_subdomain(node))
    elif "nodeName" in spec:
        yield errors.wrong("spec.nodeName", node, "must be either unset or set to a non-empty string")
    if "nodeSelector" in spec:
        yield from node_selector("spec.nodeSelector", spec["nodeSelector"])
        terms = items(spec["nodeSelector"], "nodeSelectorTerms")
        if len(terms) != 1:
            message = "must have exactly one node selector term"
            yield errors.wrong(
                "spec.nodeSelector.nodeSelectorTerms", spec["nodeSelector"].get("nodeSelectorTerms"), message
            )
    for key in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(key) is False:
            yield errors.wrong(f"spec.{key}", False, "must be either unset or set to true")
    keys = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
    given = [key for key in keys if spec.get(key) or (key == "nodeSelector" and key in spec)]
    message = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not given:
        yield errors.required("spec", message)
    elif len(given) > 1:
        shown = "{" + ", ".join(f"`{key}`" for key in given) + "}"
        yield errors.wrong("spec", shown, f"{message}, but multiple fields are set")


def _slice_update(new: Object, old: Object) -> list[FieldError]:
    now, was = part(new, "spec"), part(old, "spec")
    found = list(_slice(new, old))
    for path, keys in (
        ("spec.pool.name", ("pool", "name")),
        ("spec.driver", ("driver",)),
        ("spec.nodeName", ("nodeName",)),
    ):
        holders = (part(now, *keys[:-1]), part(was, *keys[:-1])) if len(keys) > 1 else (now, was)
        found.extend(immutable(path, holders[0].get(keys[-1]), holders[1].get(keys[-1])))
    return found


def _slice_prepare(new: Object, old: Object, context: Context) -> None:
    spec = part(new, "spec")
    if spec.get("sharedCounters") == [] and "devices" not in spec:
        del spec["sharedCounters"]  # etcd drops it; beside devices it is refused
    device_slices.drop_disabled(part(new, "spec"), part(old, "spec"))
    for device in items(part(new, "spec"), "devices"):
        for each in items(device, "taints"):
            fill(each, {"timeAdded": context.now})


def _slice_prepare_update(new: Object, old: Object, context: Context) -> None:
    # The fields dropped below count as changes.
    if part(new, "spec") != part(old, "spec"):
        new["metadata"]["generation"] = number(old["metadata"], "generation") + 1
    _slice_prepare(new, old, context)


KIND = Kind(
    group="resource.k8s.io",
    kind="ResourceSlice",
    plural="resourceslices",
    generation=("spec",),
    prepare_create=lambda new, context: _slice_prepare(new, {}, context),
    prepare_update=_slice_prepare_update,
    validate=lambda found: list(_slice(found)),
    validate_update=_slice_update,
    fields=lambda found: {
        "spec.nodeName": text(part(found, "spec"), "nodeName"),
        "spec.driver": text(part(found, "spec"), "driver"),
    },
    columns=cells.aged(
        Node=cells.field("spec.nodeName"),
        Driver=cells.field("spec.driver"),
        Pool=cells.field("spec.pool.name"),
    ),
    returned_on_deletion=True,
)
