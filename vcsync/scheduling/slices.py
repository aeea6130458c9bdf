"""From a namespace's ResourceQuotas and slice annotation to a number of slices; exact."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil
from typing import Any

import msgspec

from vcsync.api.names import SLICE
from vcsync.kube.quantity import InvalidQuantity, milli
from vcsync.scheduling.resources import Resources, show

MAX_SLICES = 1000
"""Slices one namespace may be dealt."""

DIMENSIONS = ("cpu", "memory")
"""Resources that a quota asks for and that say how many slices hold it."""

PODS = "pods"
"""What a slice has besides: room for so many Pods, whose number nodes bound (the kubelet's `maxPods`)."""

OBJECT_BYTES = "object-bytes"
"""How many bytes a namespace's objects may take in a super cluster; no ResourceQuota knows that, the syncer counts."""

OBJECTS = (
    "configmaps",
    OBJECT_BYTES,
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
)
"""What an operator's slice may name besides: how many of these a namespace may have in a super cluster.

Names as in a ResourceQuota, but for the bytes. They are bounded, not dealt out: no super cluster says how many it has.
"""

DEFAULT_SLICE: Mapping[str, str] = {
    "cpu": "2",
    "memory": "4Gi",
    OBJECT_BYTES: "16Mi",
    "services.loadbalancers": "5",
    "services.nodeports": "20",
}
"""The slice of deployments that do not say otherwise, as quantities."""

_EXAMPLE = '{"cpu":"2","memory":"4Gi"}'


class InvalidQuota(ValueError):
    """A ResourceQuota or default quota has a field that cannot be used; the text names it and the remedy."""


class InvalidSlice(ValueError):
    """A slice annotation cannot be used; the text names the annotation, the field and the remedy."""


def quota_from_hards(
    hards: Iterable[Mapping[str, str]], default: Mapping[str, str] | None = None
) -> Resources:
    """The tightest quota on CPU and memory that several `spec.hard` maps allow together.

    `cpu`, `requests.cpu` and `limits.cpu` all bound what a namespace can use, likewise for memory. A
    dimension that none of them bounds is taken from `default`, and left out if that does not name it either.
    `InvalidQuota` for a bad or negative quantity.
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
    """The size of a namespace's slices: what its annotation says, or `default` without one.

    The annotation is a JSON object with exactly the keys `cpu` and `memory`, quantities as strings, both
    above zero. `InvalidSlice` otherwise. `default` is never changed.
    """
    if text is None:
        return dict(default)
    try:
        fields: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise _invalid(f"not JSON ({error})") from error
    except RecursionError as error:
        raise _invalid("nested too deep to be JSON that we read") from error
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
    """A tenant's text, quoted and no longer than a message can bear."""
    return repr(value)[:60]


def _invalid(what: str) -> InvalidSlice:
    return InvalidSlice(f"annotation {SLICE}: {what}; write it like {_EXAMPLE}, or remove it for the default")


def pods_beside(size: Mapping[str, int], whole: Mapping[str, int]) -> int | None:
    """The Pods (thousandths, whole ones) that go with an amount of CPU and memory of a whole: its share of the Pods.

    Shares of CPU and memory may differ; their mean counts, so that all parts of the whole have no more Pods than
    the whole has. None if `whole` does not say how many Pods, or how much CPU or memory it has.
    """
    if not all(whole.get(name) for name in (*DIMENSIONS, PODS)):
        return None
    return int(_share(size, whole) * whole[PODS] / 1000) * 1000


def _share(size: Mapping[str, int], whole: Mapping[str, int]) -> Fraction:
    """How much of a whole an amount of CPU and memory is: the mean of both."""
    return sum((Fraction(size[name], whole[name]) for name in DIMENSIONS), Fraction()) / len(DIMENSIONS)


def slice_pods(size: Mapping[str, int], whole: Mapping[str, int], kept: int | None = None) -> Resources:
    """How many Pods a slice of `size` has room for, by itself: at least one; empty if `whole` does not tell.

    Args:
        size: CPU and memory of the slice, in thousandths.
        whole: a slice whose Pods are known, or all there is to deal out.
        kept: the Pods of slices of this size until now; they stay while what they should be is not more than a
            quarter away, so that not every node that comes or goes changes all namespaces.
    """
    pods = pods_beside(size, whole)
    if pods is None:
        return {}
    pods = max(1000, pods)
    return {PODS: kept if kept is not None and abs(pods - kept) * 4 <= kept else pods}


def slice_objects(size: Mapping[str, int], *references: Mapping[str, int]) -> Resources:
    """How many objects of which kinds a slice of `size` allows: in proportion to a slice that says so; at least one.

    Args:
        size: CPU and memory of the slice, in thousandths.
        references: operators' slices; the first that names a kind counts.
    """
    objects: Resources = {}
    for whole in references:
        for name in OBJECTS:
            if name in whole and name not in objects:
                objects[name] = max(1, ceil(_share(size, whole) * whole[name] / 1000)) * 1000
    return objects


def slice_count(quota: Mapping[str, int], size: Mapping[str, int]) -> int:
    """How many slices of `size` hold the whole quota: the largest of the exact ratios, rounded up.

    A dimension that the quota does not bound asks for none. `InvalidSlice` if that makes more than
    `MAX_SLICES`.
    """
    count = max((-(-quota[name] // amount) for name, amount in size.items() if name in quota), default=0)
    if count <= MAX_SLICES:
        return count
    least = ", ".join(
        f"{name} {show(name, _round_up(quota[name], MAX_SLICES))}" for name in sorted(size) if name in quota
    )
    raise InvalidSlice(
        f"annotation {SLICE}: the quota makes {count} slices of this size, at most {MAX_SLICES} are dealt; "
        f"write a slice of at least {least}"
    )


def _round_up(amount: int, parts: int) -> int:
    """The smallest size of which `parts` hold the amount, in whole units where it is a unit or more."""
    size = -(-amount // parts)
    return size if size < 1000 else -(-size // 1000) * 1000
