"""The kind Node: defaults, validation, allowed updates, status, warnings and columns. Pure.

Source: `ValidateNode*` in Kubernetes' `pkg/apis/core/validation`, `pkg/registry/core/node`.
"""

from datetime import datetime
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.address_warnings import cidr_warnings
from vcsync.apimachinery.kinds.common.addresses import cidr, range_of
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.pod_scheduling import EFFECTS
from vcsync.apimachinery.kinds.core.resources import resource_value
from vcsync.apimachinery.patch.resets import SPEC, STATUS
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    choice,
    indexed,
    items,
    label_key,
    part,
    text,
)
from vcsync.apimachinery.wire import cells
from vcsync.patterns.linear import linear

_FEATURE = linear(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")
_FEATURE_BYTES = 253
_FEATURE_FORM = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)
_PODS_ONCE = 'node updates may not change podCIDR except from "" to valid'


def _default(node: Object) -> None:
    status, spec = part(node, "status"), part(node, "spec")
    if part(status, "capacity") and not part(status, "allocatable"):
        status["allocatable"] = dict(status["capacity"])
    first, ranges = text(spec, "podCIDR"), items(spec, "podCIDRs")
    if first and ranges[:1] != [first]:
        spec["podCIDRs"] = [first]
    elif ranges and not first:
        spec["podCIDR"] = ranges[0]


def _create(new: Object, _: Context) -> None:
    part(new, "spec").pop("configSource", None)
    part(new, "status").pop("config", None)


def _prepare_update(new: Object, old: Object, _: Context) -> None:
    """Drop `configSource` unless the stored object has it: kubelets no longer read it."""
    if "configSource" not in part(old, "spec"):
        part(new, "spec").pop("configSource", None)


def _status_prepare(new: Object, old: Object, _: Context) -> None:
    if "config" not in part(old, "status"):
        part(new, "status").pop("config", None)


def _warnings(new: Object, _: Object | None) -> list[str]:
    spec = part(new, "spec")
    message = ["spec.configSource: the feature is removed"] if "configSource" in spec else []
    if text(spec, "externalID"):
        message.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    for value, here in indexed(spec, "podCIDRs", "spec.podCIDRs"):
        message += cidr_warnings(here, value)
    return message


def _taints(path: str, found: list[Object]) -> Findings:
    seen: set[tuple[str, str]] = set()
    for index, each in enumerate(found):
        here = f"{path}[{index}]"
        key, value, effect = text(each, "key"), text(each, "value"), text(each, "effect")
        yield from label_key(f"{here}.key", key)
        wrong = names.label_value(value)
        if wrong:
            yield errors.wrong(f"{here}.value", value, ";".join(wrong))
        yield from choice(f"{here}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": each.get("timeAdded")}
            yield errors.duplicate(here, shown, "taints must be unique by key and effect pair")
        seen.add((key, effect))


def _resources(node: Object) -> Findings:
    for key in ("capacity", "allocatable"):
        for name, value in part(node, "status", key).items():
            yield from resource_value(f"status.{key}.{name}", name, value)


def _features(found: list[str]) -> Findings:
    """Check the features that a kubelet declares: they must be sorted and unique."""
    path = "status.declaredFeatures"
    for index, each in enumerate(found):
        for message in _feature_name(each):
            yield errors.wrong(f"{path}[{index}]", each, message)
        if index + 1 < len(found):
            following = found[index + 1]
            if each == following:
                yield errors.duplicate(f"{path}[{index + 1}]", following)
            elif each > following:
                yield errors.wrong(f"{path}[{index + 1}]", following, "list must be sorted alphabetically")


def _feature_name(name: str) -> list[str]:
    shown = f"invalid feature name {errors.value_text(name)}"
    if names.size(name) > _FEATURE_BYTES:
        return [f"{shown}: must be no more than {_FEATURE_BYTES} characters"]
    return [] if _FEATURE.fullmatch(name) else [f"{shown}: {_FEATURE_FORM}"]


def _node(node: Object) -> Findings:
    spec = part(node, "spec")
    yield from _taints("metadata.taints", items(spec, "taints"))
    yield from _resources(node)
    yield from _features(items(part(node, "status"), "declaredFeatures"))
    ranges = items(spec, "podCIDRs")
    for index, each in enumerate(ranges):
        yield from cidr(f"spec.podCIDRs[{index}]", each)
    versions = [parsed[0].version for each in ranges if (parsed := range_of(each))]
    if len(ranges) > 1 and sorted(versions) != [4, 6]:
        yield errors.wrong("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family")


def _update(new: Object, old: Object) -> list[FieldError]:
    found = list(_node(new))
    spec, before = part(new, "spec"), part(old, "spec")
    seen: set[tuple[str, str]] = set()
    for each, here in indexed(part(new, "status"), "addresses", "status.addresses"):
        key = (text(each, "type"), text(each, "address"))
        if key in seen:
            shown = {"Type": text(each, "type"), "Address": text(each, "address")}
            found.append(errors.duplicate(here, shown))
        seen.add(key)
    ranges, known = items(spec, "podCIDRs"), items(before, "podCIDRs")
    if known and ranges != known:
        found.append(errors.not_allowed("spec.podCIDRs", _PODS_ONCE))
    provider = text(before, "providerID")
    if provider and provider != text(spec, "providerID"):
        message = 'node updates may not change providerID except from "" to valid'
        found.append(errors.not_allowed("spec.providerID", message))
    found.extend(_taints("metadata.taints", items(spec, "taints")))
    if text(spec, "externalID") != text(before, "externalID"):
        found.append(errors.not_allowed("spec.externalID", "may not be updated"))
    return found


ROLE_PREFIX, ROLE_LABEL = "node-role.kubernetes.io/", "kubernetes.io/role"


def node_status(obj: cells.Object, _: datetime) -> str:
    """Return whether a Node is ready, and whether scheduling is disabled."""
    conditions = {each.get("type"): each for each in cells.look(obj, "status.conditions", ())}
    found = conditions.get("Ready")
    ready = "Unknown" if found is None else "Ready" if found.get("status") == "True" else "NotReady"
    return f"{ready},SchedulingDisabled" if cells.look(obj, "spec.unschedulable") else ready


def node_roles(obj: cells.Object, _: datetime) -> str:
    """Return a Node's roles, from its labels."""
    labels = cells.look(obj, "metadata.labels", {})
    roles = {key.removeprefix(ROLE_PREFIX) for key in labels if key.startswith(ROLE_PREFIX)}
    roles.add(labels.get(ROLE_LABEL, ""))
    return ",".join(sorted(roles - {""})) or cells.NONE


def node_address(kind: str) -> cells.Cell:
    """Return the cell of a Node's first address of a type."""

    def cell(obj: cells.Object, _: datetime) -> Any:
        addresses = cells.look(obj, "status.addresses", ())
        return next((each.get("address", "") for each in addresses if each.get("type") == kind), cells.NONE)

    return cell


def kernel(obj: cells.Object, _: datetime) -> str:
    """Return a Node's kernel version and architecture."""
    architecture = cells.look(obj, "status.nodeInfo.architecture")
    version = cells.look(obj, "status.nodeInfo.kernelVersion") or cells.UNKNOWN
    return f"{version} ({architecture})" if architecture else str(version)


KIND = Kind(
    group="",
    kind="Node",
    plural="nodes",
    status=True,
    status_on_create=True,
    default=_default,
    prepare_create=_create,
    prepare_update=_prepare_update,
    validate=lambda found: list(_node(found)),
    validate_update=_update,
    status_prepare=_status_prepare,
    status_validate=_update,
    warnings=_warnings,
    fields=lambda found: {
        "spec.unschedulable": "true" if part(found, "spec").get("unschedulable") else "false"
    },
    columns={
        "Name": cells.name,
        "Status": node_status,
        "Roles": node_roles,
        "Age": cells.age,
        "Version": cells.field("status.nodeInfo.kubeletVersion"),
        "Internal-IP": node_address("InternalIP"),
        "External-IP": node_address("ExternalIP"),
        "OS-Image": cells.filled("status.nodeInfo.osImage", cells.UNKNOWN),
        "Kernel-Version": kernel,
        "Container-Runtime": cells.filled("status.nodeInfo.containerRuntimeVersion", cells.UNKNOWN),
    },
    resets={"": STATUS, "status": SPEC},
    repeats_finalizer_findings=True,
)
