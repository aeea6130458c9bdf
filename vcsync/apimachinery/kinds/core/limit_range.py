"""The kind LimitRange: defaults and validation. Pure.

Source: Kubernetes' `pkg/apis/core/validation`, `pkg/registry/core/limitrange` and `pkg/printers/internalversion`.
"""

from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.resources import (
    container_resource_name,
    milli,
    overcommits,
    resource_name,
)
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, indexed, items, part, say, text

_LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")


def _limit_default(found: Object) -> None:
    for each in items(part(found, "spec"), "limits"):
        if text(each, "type") != "Container":
            continue
        default = {**part(each, "max"), **part(each, "default")}
        request = {**part(each, "min"), **default, **part(each, "defaultRequest")}
        for key, value in (("default", default), ("defaultRequest", request)):
            if value:
                each[key] = {name: value[name] for name in sorted(value)}


def _limits(found: Object) -> Findings:
    seen: set[str] = set()
    for each, here in indexed(part(found, "spec"), "limits", "spec.limits"):
        kind = text(each, "type")
        yield from _limit_type(f"{here}.type", kind)
        if kind in seen:
            yield errors.duplicate(f"{here}.type", kind)
        seen.add(kind)
        yield from _limit_names(here, each, kind)
        keys = {name for key in _MAPS for name in part(each, key)}
        for name in sorted(keys):
            yield from _limit_values(here, each, name)


_MAPS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _limit_type(path: str, kind: str) -> Findings:
    wrong = names.qualified_name(kind)
    yield from say(path, kind, wrong)
    if not wrong and "/" not in kind and kind not in _LIMIT_TYPES:
        yield errors.wrong(path, kind, "must be a standard limit type or fully qualified")


def _limit_names(path: str, found: Object, kind: str) -> Findings:
    check = container_resource_name if kind in ("Pod", "Container") else resource_name
    for key in _MAPS:
        if key in ("default", "defaultRequest") and kind == "Pod":
            if part(found, key):
                yield errors.not_allowed(f"{path}.{key}", "may not be specified when `type` is 'Pod'")
            continue
        if key == "maxLimitRequestRatio" and kind == "PersistentVolumeClaim" and not _bounds_storage(found):
            message = "either minimum or maximum storage value is required, but neither was provided"
            yield errors.required(f"{path}.limits", message)
        for name in part(found, key):
            yield from check(f"{path}.{key}[{name}]", name)


def _bounds_storage(found: Object) -> bool:
    return "storage" in part(found, "min") or "storage" in part(found, "max")


def _limit_values(path: str, found: Object, name: str) -> Findings:
    low, high = part(found, "min").get(name), part(found, "max").get(name)
    default, request = part(found, "default").get(name), part(found, "defaultRequest").get(name)
    if text(found, "type") == "Pod":
        default = request = None

    def above(one: Any, other: Any) -> bool:
        return one is not None and other is not None and milli(one) > milli(other)

    here = f"{path}.defaultRequest[{name}]"
    if above(low, high):
        yield errors.wrong(f"{path}.min[{name}]", low, f"min value {low} is greater than max value {high}")
    if above(low, request):
        yield errors.wrong(here, request, f"min value {low} is greater than default request value {request}")
    if above(request, high):
        yield errors.wrong(here, request, f"default request value {request} is greater than max value {high}")
    if above(request, default):
        message = f"default request value {request} is greater than default limit value {default}"
        yield errors.wrong(here, request, message)
    here = f"{path}.default[{name}]"
    if above(low, default):
        yield errors.wrong(here, low, f"min value {low} is greater than default value {default}")
    if above(default, high):
        yield errors.wrong(here, high, f"default value {default} is greater than max value {high}")
    yield from _ratio(path, found, name)
    if (
        not overcommits(name)
        and default is not None
        and request is not None
        and milli(default) != milli(request)
    ):
        message = f"default value {default} must equal to defaultRequest value {request} in {name}"
        yield errors.wrong(f"{path}.defaultRequest[{name}]", request, message)


def _ratio(path: str, found: Object, name: str) -> Findings:
    ratio = part(found, "maxLimitRequestRatio").get(name)
    low, high = part(found, "min").get(name), part(found, "max").get(name)
    if ratio is None:
        return
    here = f"{path}.maxLimitRequestRatio[{name}]"
    if milli(ratio) < 1000:
        yield errors.wrong(here, ratio, f"ratio {ratio} is less than 1")
    if low is not None and high is not None and milli(low):
        limit = milli(high) / milli(low)
        if milli(ratio) / 1000 > limit:
            yield errors.wrong(here, ratio, f"ratio {ratio} is greater than max/min = {limit:.6f}")


def _limit_create(new: Object, _: Context) -> None:
    """Use the uid as the name of a limit range without a name."""
    if not text(new["metadata"], "name"):
        new["metadata"]["name"] = new["metadata"]["uid"]


KIND = Kind(
    group="",
    kind="LimitRange",
    plural="limitranges",
    create_on_update=True,
    default=_limit_default,
    prepare_create=_limit_create,
    validate=lambda found: list(_limits(found)),
    repeats_metadata_findings=False,
)
