"""Validation of the amounts of a device's capacity that a claim may request. Pure.

Source: `validateRequestPolicy` and what it calls in Kubernetes' `pkg/apis/resource/validation`.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.core.resources import milli
from vcsync.apimachinery.kinds.resource.limited_lists import limited_set
from vcsync.apimachinery.validation.fields import Findings, Object, items, part
from vcsync.objects import quantity

_MOST_OPTIONS = 10


def policy(path: str, found: Object, capacity: Any) -> Findings:
    """Check a policy; `capacity`: what the device has."""
    options, within = items(found, "validValues"), found.get("validRange")
    if options and within is not None:
        message = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        yield errors.not_allowed(path, message)
    elif options or within is not None:
        key = "validValues" if options else "validRange"
        default = found.get("default")
        if default is None:
            yield errors.required(f"{path}.default", f"required when {key} is defined")
        elif options:
            yield from _options(f"{path}.{key}", found, default, capacity)
        else:
            yield from _range(f"{path}.{key}", part(found, key), default, capacity)


def _options(path: str, found: Object, default: Any, capacity: Any) -> Findings:
    options: Sequence[Any] = items(found, "validValues")
    for index, (one, following) in enumerate(pairwise(options), 1):
        if milli(one) > milli(following):
            yield errors.wrong(f"{path}[{index}]", following, "values must be sorted in ascending order")

    def option(here: str, value: Any) -> Findings:
        if milli(value) > milli(capacity):
            yield errors.wrong(here, value, f"option is larger than capacity value: {capacity}")

    yield from limited_set(
        path, found, "validValues", _MOST_OPTIONS, option, identity=lambda each: str(_whole(milli(each)))
    )
    if len(options) > _MOST_OPTIONS or milli(default) not in {milli(each) for each in options}:
        yield errors.wrong(path, default, "default value is not valid according to the requestPolicy")


def _range(path: str, found: Object, default: Any, capacity: Any) -> Findings:
    least, most, step = found.get("min"), found.get("max"), found.get("step")
    if least is None:
        yield errors.required(f"{path}.min", "required when validRange is defined")
        return
    if milli(least) > milli(capacity):
        yield errors.wrong(f"{path}.min", least, f"min is larger than capacity value: {capacity}")
    if milli(default) < milli(least):
        yield errors.wrong(f"{path}.min", default, f"default is less than min: {least}")
    if most is not None:
        if milli(least) > milli(most):
            yield errors.wrong(f"{path}.max", least, f"min is larger than max: {most}")
        if milli(most) > milli(capacity):
            yield errors.wrong(f"{path}.max", most, f"max is larger than capacity value: {capacity}")
        if milli(default) > milli(most):
            yield errors.wrong(f"{path}.max", default, f"default is more than max: {most}")
    if step is not None:
        yield from _steps(f"{path}.step", found, default, capacity)


def _steps(path: str, found: Object, default: Any, capacity: Any) -> Findings:
    least, step = found["min"], found["step"]
    one = milli(least) + milli(step)
    if one > milli(capacity):
        shown = quantity.canonical(one, like=str(step if milli(least) == 0 else least))
        yield errors.wrong(path, step, f"one step {shown} is larger than capacity value: {capacity}")
    width = _whole(milli(step))
    if width == 0:
        return  # kube-apiserver divides by zero here, and closes the connection without an answer.
    for value in (default, found.get("max")):
        if value is not None and (_whole(milli(value)) - _whole(milli(least))) % width:
            yield errors.wrong(
                path, value, f"value is not a multiple of a given step ({step}) from ({least})"
            )


def _whole(size: int) -> int:
    """Return a number of thousandths as a whole number, rounded up."""
    return -(-size // 1000)
