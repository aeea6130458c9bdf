"""Computes the number and size of a namespace's slices from its ResourceQuotas and annotation, exactly. Pure."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil
from typing import Any

import msgspec

from vcsync.api.names import SLICE
from vcsync.objects.quantity import InvalidQuantity, milli
from vcsync.scheduling.resources import Resources, show

MAX_SLICES = 1000
"""Largest number of slices of one namespace."""

FEW_SLICES = 10
"""Largest number of slices of one namespace that have a Pod each, however small they are."""

DIMENSIONS = ("cpu", "memory")
"""Resources of a quota that determine the number of slices."""

PODS = "pods"
"""The number of Pods of a slice, which nodes limit (the kubelet's `maxPods`)."""

OBJECT_BYTES = "object-bytes"
"""Bytes that a namespace's objects may take in a super cluster. The syncer counts them, since no ResourceQuota does."""

DEVICES = "devices"
"""Devices of each published DeviceClass that a namespace's ResourceClaims may ask for in a super cluster."""

OBJECTS = (
    "configmaps",
    "count/resourceclaims.resource.k8s.io",
    "count/volumesnapshots.snapshot.storage.k8s.io",
    DEVICES,
    OBJECT_BYTES,
    "persistentvolumeclaims",
    "requests.storage",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
)
"""Further resources of an operator's slice: numbers of objects that a namespace may have in a super cluster.

The names are those of ResourceQuotas, except for the bytes of objects and the devices of each class; `requests.storage` is
in bytes, too. The numbers are limited but not distributed, since super clusters do not report how many they have.
"""

DEFAULT_SLICE: Mapping[str, str] = {
    "cpu": "2",
    "memory": "4Gi",
    "count/resourceclaims.resource.k8s.io": "10",
    "count/volumesnapshots.snapshot.storage.k8s.io": "10",
    DEVICES: "4",
    OBJECT_BYTES: "16Mi",
    "persistentvolumeclaims": "10",
    "requests.storage": "100Gi",
    "services.loadbalancers": "5",
    "services.nodeports": "20",
}
"""The default slice, as quantities."""

_EXAMPLE = '{"cpu":"2","memory":"4Gi"}'


class InvalidQuota(ValueError):
    """A field of a ResourceQuota or default quota is invalid. The text names it and the remedy."""


class InvalidSlice(ValueError):
    """A slice annotation is invalid. The text names the annotation, the field and the remedy."""


def quota_from_hards(
    hards: Iterable[Mapping[str, str]], default: Mapping[str, str] | None = None
) -> Resources:
    """Return the smallest quota of CPU and memory that several `spec.hard` maps allow together, in thousandths.

    `cpu`, `requests.cpu` and `limits.cpu` all limit the CPU of a namespace, and the same keys limit memory. A resource that
    none of them limits is taken from `default`, and left out if that does not name it either.

    Raises:
        InvalidQuota: a quantity is invalid or negative.
    """
    quota: Resources = {}
    for hard in hards:
        for dimension in DIMENSIONS:
            for key in (dimension, f"requests.{dimension}", f"limits.{dimension}"):
                if key in hard:
                    amount = _quota_amount(key, hard[key])
                    quota[dimension] = min(amount, quota.get(dimension, amount))
    for dimension in DIMENSIONS:
        if dimension not in quota and default and dimension in default:
            quota[dimension] = _quota_amount(f"defaultQuota.{dimension}", default[dimension])
    return quota


def _quota_amount(key: str, text: str) -> int:
    try:
        amount = milli(text)
    except InvalidQuantity as error:
        raise InvalidQuota(
            f"quota {key}: {text!r} is not a quantity; write it like 2, 500m or 4Gi"
        ) from error
    if amount < 0:
        raise InvalidQuota(f"quota {key}: {text!r} is negative; write an amount of 0 or more")
    return amount


def slice_from_annotation(text: str | None, default: Mapping[str, int]) -> Resources:
    """Return the size of a namespace's slices from its annotation, or a copy of `default` without one.

    The annotation is a JSON object with exactly the keys `cpu` and `memory`, both positive quantities as strings.

    Raises:
        InvalidSlice: the annotation is invalid.
    """
    if text is None:
        return dict(default)
    try:
        fields: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise _invalid(f"not JSON ({error})") from error
    except RecursionError as error:
        raise _invalid("nested too deep") from error
    if not isinstance(fields, dict):
        raise _invalid("not a JSON object")
    unknown = sorted(set(fields) - set(DIMENSIONS))
    if unknown:
        raise _invalid(f"unknown field {_short(unknown[0])}")
    return {dimension: _slice_amount(dimension, fields.get(dimension)) for dimension in DIMENSIONS}


def _slice_amount(field: str, text: Any) -> int:
    if text is None:
        raise _invalid(f"field {field!r} is missing")
    if not isinstance(text, str):
        raise _invalid(f"field {field!r} must be a string, not {_short(text)}")
    try:
        amount = milli(text)
    except InvalidQuantity as error:
        raise _invalid(f"field {field!r}: {_short(text)} is not a quantity") from error
    if amount <= 0:
        raise _invalid(f"field {field!r}: {_short(text)} must be more than zero")
    return amount


def _short(value: Any) -> str:
    """Return a tenant's value for a message: quoted, at most 60 characters."""
    return repr(value)[:60]


def _invalid(what: str) -> InvalidSlice:
    return InvalidSlice(f"annotation {SLICE}: {what}; write it like {_EXAMPLE}, or remove it for the default")


def proportional_pods(size: Mapping[str, int], whole: Mapping[str, int]) -> int | None:
    """Return the share of the Pods of a whole that belongs to an amount of CPU and memory: whole Pods, in thousandths.

    The shares of CPU and memory may differ. Their mean is used, so that all parts together have no more Pods than the
    whole. None if `whole` lacks its Pods, CPU or memory.
    """
    if not all(whole.get(name) for name in (*DIMENSIONS, PODS)):
        return None
    return int(share_of_whole(size, whole) * whole[PODS] / 1000) * 1000


def share_of_whole(size: Mapping[str, int], whole: Mapping[str, int]) -> Fraction:
    """Return the mean of the shares that an amount of CPU and memory has of a whole."""
    return sum((Fraction(size[name], whole[name]) for name in DIMENSIONS), Fraction()) / len(DIMENSIONS)


def slice_pods(
    size: Mapping[str, int],
    whole: Mapping[str, int],
    kept: int | None = None,
    most: int | None = None,
) -> Resources:
    """Return how many Pods a slice of `size` has: at least one; empty if `whole` lacks its Pods, CPU or memory.

    Args:
        size: CPU and memory of the slice, in thousandths.
        whole: a slice whose Pods are known, or the capacity of the pool.
        kept: the present number of Pods of slices of this size. It is kept while it differs by at most a quarter, so that
            not every change of nodes changes all namespaces.
        most: the largest number of Pods that its share allows, in thousandths.
    """
    pods = proportional_pods(size, whole)
    if pods is None:
        return {}
    pods = max(1000, pods if most is None else min(pods, most // 1000 * 1000))
    return {PODS: kept if kept is not None and abs(pods - kept) * 4 <= kept else pods}


def enlargement(
    quota: Mapping[str, int],
    size: Mapping[str, int],
    operators: Mapping[str, int],
    whole: Mapping[str, int],
    present: Mapping[str, int] | None = None,
) -> int:
    """Return how many slices of a size that a tenant chose make one slice with a Pod of its own.

    A slice has at least one Pod, so many small ones would have more Pods than their share. A few may: some programs consist of
    several small Pods.

    Args:
        quota: amounts that the namespace may use.
        size: CPU and memory of a slice as the tenant wants it.
        operators: the slice that the namespace would have otherwise.
        whole: a slice whose Pods are known, or the capacity of the pool.
        present: the present slice of the namespace. What it is made of is kept while the Pods of the pool change little.
    """
    slices, pods = slices_for(quota, size), whole_pods(quota, operators, whole)
    if pods is None or slices <= FEW_SLICES:
        return 1
    share = min(slices * share_of_whole(size, whole) * whole[PODS], Fraction(pods)) / 1000
    each = max(share, Fraction(FEW_SLICES)) / slices
    kept = multiple_of(size, present or {})
    if kept and kept * each >= Fraction(3, 4) and (kept == 1 or (kept - 1) * each < Fraction(5, 4)):
        return kept
    return min(slices, ceil(1 / each))


def multiple_of(size: Mapping[str, int], present: Mapping[str, int]) -> int:
    """Return how many slices of `size` a present slice consists of; 0 if it does not consist of whole ones."""
    factor = present.get(DIMENSIONS[0], 0) // size[DIMENSIONS[0]]
    return factor if all(present.get(name) == factor * size[name] for name in DIMENSIONS) else 0


def whole_pods(
    quota: Mapping[str, int], operators: Mapping[str, int], whole: Mapping[str, int]
) -> int | None:
    """Return the Pods that a namespace has with slices of the operator's size, in thousandths; None if that is unknown.

    Args:
        quota: amounts that the namespace may use.
        operators: CPU and memory of the operator's slice.
        whole: a slice whose Pods are known, or the capacity of the pool.
    """
    pods = slice_pods(operators, whole).get(PODS)
    return None if pods is None else pods * slices_for(quota, operators)


def slices_for(quota: Mapping[str, int], size: Mapping[str, int]) -> int:
    """Return how many slices of `size` hold the whole quota: the largest of the exact ratios, rounded up.

    A resource that the quota does not limit needs no slices.
    """
    return max((-(-quota[name] // amount) for name, amount in size.items() if name in quota), default=0)


def slice_count(quota: Mapping[str, int], size: Mapping[str, int]) -> int:
    """Return how many slices of `size` hold the whole quota, as `slices_for` does.

    Raises:
        InvalidSlice: that would be more than `MAX_SLICES`.
    """
    count = slices_for(quota, size)
    if count <= MAX_SLICES:
        return count
    least = ", ".join(
        f"{name} {show(name, _round_up(quota[name], MAX_SLICES))}" for name in sorted(size) if name in quota
    )
    raise InvalidSlice(
        f"annotation {SLICE}: the quota needs {count} slices of this size, at most {MAX_SLICES} are allowed; "
        f"write a slice of at least {least}"
    )


def _round_up(amount: int, parts: int) -> int:
    """Return the smallest size of which `parts` hold the amount, in whole units if it is at least one unit."""
    size = -(-amount // parts)
    return size if size < 1000 else -(-size // 1000) * 1000
