"""The kind ResourceSlice: generation, validation, warnings, selectable fields and columns. Pure.

Source: Kubernetes' `pkg/apis/resource/validation`,
`pkg/registry/resource/resourceslice` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.pod_scheduling import node_selector
from vcsync.apimachinery.kinds.core.pod_volumes import csi_driver_name
from vcsync.apimachinery.kinds.resource import device_slices, device_values
from vcsync.apimachinery.kinds.resource.limited_lists import limited_set
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    immutable,
    items,
    number,
    part,
    say,
    text,
)
from vcsync.apimachinery.wire import cells


def _slice(found: Object, old: Object | None = None) -> Findings:
    spec, before = part(found, "spec"), part(old, "spec")
    yield from csi_driver_name("spec.driver", text(spec, "driver"))
    pool = part(spec, "pool")
    yield from device_values.pool_name("spec.pool.name", text(pool, "name"))
    if number(pool, "resourceSliceCount") <= 0:
        yield errors.wrong(
            "spec.pool.resourceSliceCount", number(pool, "resourceSliceCount"), "must be greater than zero"
        )
    if number(pool, "generation") < 0:
        message = "must be greater than or equal to zero"
        yield errors.wrong("spec.pool.generation", number(pool, "generation"), message)
    if old is not None:
        yield from immutable("spec.pool.name", text(pool, "name"), text(part(before, "pool"), "name"))
        yield from immutable("spec.driver", spec.get("driver"), before.get("driver"))
        yield from immutable("spec.nodeName", spec.get("nodeName"), before.get("nodeName"))
    yield from _nodes(spec)
    if "sharedCounters" in spec and "devices" in spec:
        yield errors.wrong("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    known = {text(each, "name"): each for each in items(before, "devices")}
    per_device = bool(spec.get("perDeviceNodeSelection"))
    yield from limited_set(
        "spec.devices",
        spec,
        "devices",
        device_slices.most_devices(spec),
        lambda here, each: device_slices.device(
            here, each, known.get(text(each, "name")), per_device=per_device
        ),
        identity=lambda each: text(each, "name"),
    )
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


def _default_slice(found: Object) -> None:
    spec = part(found, "spec")
    given = [key for key in ("devices", "sharedCounters") if key in spec]
    if len(given) == 1 and not spec[given[0]]:
        del spec[given[0]]  # An empty list is not stored. Beside the other list it counts, and is refused.


def _warnings(new: Object, _: Object | None) -> list[str]:
    driver = text(part(new, "spec"), "driver")
    if driver == driver.lower():
        return []
    shown = errors.value_text(driver)
    return [f"spec.driver: driver names should be lowercase; {shown} contains uppercase characters"]


def _slice_prepare(new: Object, old: Object, context: Context) -> None:
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
    default=_default_slice,
    prepare_create=lambda new, context: _slice_prepare(new, {}, context),
    prepare_update=_slice_prepare_update,
    validate=lambda found: list(_slice(found)),
    validate_update=lambda new, old: list(_slice(new, old)),
    warnings=_warnings,
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
