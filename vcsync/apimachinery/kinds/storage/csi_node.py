"""The kind CSINode: validation, allowed updates and columns. Pure.

Source: Kubernetes' `pkg/apis/storage/validation`, `pkg/registry/storage/csinode` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.pod_volumes import csi_driver_name
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import IMMUTABLE, Findings, Object, indexed, items, part, say, text
from vcsync.apimachinery.wire import cells


def _node(found: Object) -> Findings:
    seen: set[str] = set()
    for each, here in indexed(part(found, "spec"), "drivers", "spec.drivers"):
        name, node = text(each, "name"), text(each, "nodeID")
        yield from csi_driver_name(f"{here}.name", name)
        if not node:
            yield errors.required(f"{here}.nodeID")
        if names.size(node) > 256:
            yield errors.wrong(f"{here}.nodeID", node, "must be 256 characters or less")
        count = part(each, "allocatable").get("count")
        if count is not None and count < 0:
            yield errors.wrong(f"{here}.allocatable.count", count, "must be greater than or equal to 0")
        if name in seen:
            yield errors.duplicate(f"{here}.name", name)
        seen.add(name)
        keys: set[str] = set()
        for key in items(each, "topologyKeys"):
            if not key:
                yield errors.required(here)
            if key in keys:
                yield errors.duplicate(here, key)
            keys.add(key)
            yield from say(here, key, names.qualified_name(key))


def _node_update(new: Object, old: Object) -> list[FieldError]:
    found = list(_node(new))
    known = {text(each, "name"): each for each in items(part(old, "spec"), "drivers")}
    for each in items(part(new, "spec"), "drivers"):
        was = known.get(text(each, "name"))
        if was is not None and _fixed(each) != _fixed(was):
            found.append(errors.wrong("spec.drivers", _shown_driver(each), IMMUTABLE))
    return found


def _fixed(driver: Object) -> Object:
    return {key: value for key, value in driver.items() if key != "allocatable"}


def _shown_driver(driver: Object) -> Object:
    return {
        "Name": text(driver, "name"),
        "NodeID": text(driver, "nodeID"),
        "TopologyKeys": driver.get("topologyKeys"),
        "Allocatable": None,
    }


KIND = Kind(
    group="storage.k8s.io",
    kind="CSINode",
    plural="csinodes",
    unconditional_update=False,
    validate=lambda found: list(_node(found)),
    validate_update=_node_update,
    columns={"Name": cells.name, "Drivers": cells.count("spec.drivers"), "Age": cells.age},
    repeats_metadata_findings=False,
    returned_on_deletion=True,
)
