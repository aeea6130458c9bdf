"""Nodes. Pure.

Source: `ValidateNode*` in Kubernetes' `pkg/apis/core/validation`, `pkg/registry/core/node`.
"""

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Context
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.addresses import cidr, range_of
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.pod_scheduling import EFFECTS
from vcsync.controlplane.kinds.resources import resource_value
from vcsync.controlplane.kinds.rules import Findings, Object, choice, indexed, items, label_key, part, text

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
            twice = errors.duplicate(here, shown)
            told = "taints must be unique by key and effect pair"
            yield FieldError(twice.reason, here, f"{twice.body}: {told}")
        seen.add((key, effect))


def _resources(node: Object) -> Findings:
    for key in ("capacity", "allocatable"):
        for name, value in part(node, "status", key).items():
            yield from resource_value(f"status.{key}.{name}", name, value)


def _node(node: Object) -> Findings:
    spec = part(node, "spec")
    yield from _taints("metadata.taints", items(spec, "taints"))
    yield from _resources(node)
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
        told = 'node updates may not change providerID except from "" to valid'
        found.append(errors.not_allowed("spec.providerID", told))
    found.extend(_taints("metadata.taints", items(spec, "taints")))
    if text(spec, "externalID") != text(before, "externalID"):
        found.append(errors.not_allowed("spec.externalID", "may not be updated"))
    return found


NODES = {
    ("", "Node"): Part(
        default=_default,
        prepare_create=_create,
        validate=lambda found: list(_node(found)),
        validate_update=_update,
        status_validate=_update,
        fields=lambda found: {
            "spec.unschedulable": "true" if part(found, "spec").get("unschedulable") else "false"
        },
    )
}
