"""The kind ServiceCIDR: validation, allowed updates and columns. Pure.

Source: Kubernetes' `pkg/apis/networking/validation`,
`pkg/registry/networking/servicecidr` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.addresses import canonical_cidr, range_of
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.patch.resets import SPEC_AND_METADATA, STATUS
from vcsync.apimachinery.validation.fields import IMMUTABLE, Findings, Object, items, part
from vcsync.apimachinery.wire import cells


def _ranges(found: Object) -> Findings:
    ranges, path = items(part(found, "spec"), "cidrs"), "spec.cidrs"
    if not ranges:
        yield errors.required(path, "at least one CIDR required")
        return
    if len(ranges) > 2:
        yield errors.wrong(path, {"CIDRs": ranges}, "may only hold up to 2 values")
        return
    for index, each in enumerate(ranges):
        yield from canonical_cidr(f"{path}[{index}]", each)
    versions = [parsed[0].version for each in ranges if (parsed := range_of(each))]
    if len(versions) == 2 and versions[0] == versions[1]:
        message = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield errors.wrong(path, ranges, message)


def _ranges_update(new: Object, old: Object) -> list[FieldError]:
    now, was, path = items(part(new, "spec"), "cidrs"), items(part(old, "spec"), "cidrs"), "spec.cidrs"
    if len(now) == len(was):
        pairs = enumerate(zip(now, was, strict=True))
        return [
            errors.wrong(f"{path}[{index}]", each, IMMUTABLE) for index, (each, old) in pairs if each != old
        ]
    if (len(was), len(now)) == (1, 2):
        changed = [errors.wrong(f"{path}[0]", now[0], IMMUTABLE)] if now[0] != was[0] else []
        return [*changed, *_ranges(new)]
    return [errors.wrong(path, now or None, IMMUTABLE)]


KIND = Kind(
    group="networking.k8s.io",
    kind="ServiceCIDR",
    plural="servicecidrs",
    status=True,
    validate=lambda found: list(_ranges(found)),
    validate_update=_ranges_update,
    columns={"Name": cells.name, "CIDRs": cells.joined("spec.cidrs"), "Age": cells.age},
    resets={"": STATUS, "status": SPEC_AND_METADATA},
    status_keeps_metadata=True,
)
