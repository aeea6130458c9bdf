"""Validation of updates of a Pod, its ephemeral containers and its size. Pure.

Source: `ValidatePodUpdate`, `ValidatePodEphemeralContainersUpdate`, `ValidatePodResize` in Kubernetes'
`pkg/apis/core/validation`.
"""

from copy import deepcopy
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.core import pod_scheduling
from vcsync.apimachinery.kinds.core.pod_annotations import APP_ARMOR, MIRROR
from vcsync.apimachinery.validation.fields import Findings, Object, items, outside, part, say, text

_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_RESIZED = ("cpu", "memory")


def annotation_changes(path: str, new: Object, old: Object) -> Findings:
    """Check that an update keeps the immutable annotations."""
    for key, value in old.items():
        if new.get(key) != value:
            if key.startswith(APP_ARMOR):
                yield errors.not_allowed(f"{path}[{key}]", "may not remove or update AppArmor annotations")
            elif key == MIRROR:
                yield errors.not_allowed(f"{path}[{key}]", "may not remove or update mirror pod annotation")
    for key in new:
        if key not in old:
            if key.startswith(APP_ARMOR):
                yield errors.not_allowed(f"{path}[{key}]", "may not add AppArmor annotations")
            elif key == MIRROR:
                yield errors.not_allowed(f"{path}[{key}]", "may not add mirror pod annotation")


def changes(new: Object, old: Object) -> Findings:
    """Yield the findings on an update of a Pod."""
    path = "metadata.annotations"
    yield from annotation_changes(
        path, part(new, "metadata", "annotations"), part(old, "metadata", "annotations")
    )
    now, was = part(new, "spec"), part(old, "spec")
    for key in ("containers", "initContainers"):
        found, stop = _container_changes(f"spec.{key}", items(now, key), items(was, key))
        yield from found
        if stop:
            return
    found, stop = _deadline(now.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds"))
    yield from found
    if stop:
        return
    yield from _tolerations("spec.tolerations", items(now, "tolerations"), items(was, "tolerations"))
    known = {text(each, "name") for each in items(was, "schedulingGates")}
    for index, each in enumerate(items(now, "schedulingGates")):
        name = text(each, "name")
        if name not in known:
            yield errors.not_allowed(
                f"spec.schedulingGates[{index}].name",
                f"only deletion is allowed, but found new scheduling gate '{name}'",
            )
    if now == was:
        return
    munged = _munged(now, was)
    if known:
        yield from _gated(munged, was)
    if munged != was:
        yield errors.not_allowed("spec", f"pod updates may not change fields other than {_UPDATABLE}\n")


def _container_changes(path: str, now: list[Object], was: list[Object]) -> tuple[list[FieldError], bool]:
    if len(now) != len(was):
        return [errors.not_allowed(path, "pod updates may not add or remove containers")], True
    found = []
    for index, each in enumerate(now):
        image = text(each, "image")
        if not image:
            found.append(errors.required(f"{path}[{index}].image"))
        if image.strip() != image:
            message = "must not have leading or trailing whitespace"
            found.append(errors.wrong(f"{path}[{index}].image", image, message))
    return found, False


def _deadline(now: Any, was: Any) -> tuple[list[FieldError], bool]:
    path = "spec.activeDeadlineSeconds"
    if now is None:
        message = "must not update from a positive integer to nil value"
        return ([errors.wrong(path, None, message)] if was is not None else []), False
    found = list(say(path, now, outside(now, 0, 2**31 - 1)))
    if not found and was is not None and was < now:
        found.append(errors.wrong(path, now, "must be less than or equal to previous value"))
    return found, bool(found)


def _without_seconds(found: Object) -> tuple[str, ...]:
    return tuple(text(found, key) for key in ("key", "operator", "value", "effect"))


def _tolerations(path: str, now: list[Object], was: list[Object]) -> Findings:
    kept = {_without_seconds(each) for each in now}
    if any(_without_seconds(each) not in kept for each in was):
        yield errors.not_allowed(path, "existing toleration can not be modified except its tolerationSeconds")
        return
    yield from pod_scheduling.tolerations(path, now)


def _munged(now: Object, was: Object) -> Object:
    munged = deepcopy(now)
    for key in ("containers", "initContainers"):
        for each, before in zip(items(munged, key), items(was, key), strict=False):
            each["image"] = before.get("image")
    for key in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _copy(munged, was, key)
    grace = was.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = grace
    return munged


def _copy(into: Object, source: Object, key: str) -> None:
    into.pop(key, None)
    if key in source:
        into[key] = source[key]


def _gated(munged: Object, was: Object) -> Findings:
    """Allow a Pod with scheduling gates to add to its node selector and node affinity."""
    now_nodes, was_nodes = part(munged, "nodeSelector"), part(was, "nodeSelector")
    if any(now_nodes.get(key) != value for key, value in was_nodes.items()):
        yield errors.wrong(
            "spec.nodeSelector",
            now_nodes,
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        )
    _copy(munged, was, "nodeSelector")
    now_terms = items(part(munged, "affinity", "nodeAffinity", _REQUIRED), "nodeSelectorTerms")
    was_terms = items(part(was, "affinity", "nodeAffinity", _REQUIRED), "nodeSelectorTerms")
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if was_terms and len(was_terms) != len(now_terms):
        yield errors.wrong(
            path, now_terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        )
    elif was_terms:
        for index, (term, before) in enumerate(zip(now_terms, was_terms, strict=True)):
            if not _only_more(term, before):
                message = "only additions are allowed (no mutations or deletions)"
                yield errors.wrong(f"{path}[{index}]", term, message)
    affinity = dict(part(munged, "affinity"))
    affinity.pop("nodeAffinity", None)
    if "nodeAffinity" in part(was, "affinity"):
        affinity["nodeAffinity"] = was["affinity"]["nodeAffinity"]
    munged.pop("affinity", None)
    if affinity or "affinity" in was:
        munged["affinity"] = affinity


def _only_more(term: Object, before: Object) -> bool:
    keys = ("matchExpressions", "matchFields")
    if not any(items(before, key) for key in keys):
        return not any(items(term, key) for key in keys)
    return all(items(term, key)[: len(items(before, key))] == items(before, key) for key in keys)


def ephemeral_changes(new: Object, old: Object) -> Findings:
    """Yield the findings on an update of ephemeral containers."""
    if MIRROR in part(old, "metadata", "annotations"):
        yield errors.not_allowed("", "static pods do not support ephemeral containers")
        return
    path = "spec.ephemeralContainers"
    now = {text(each, "name"): each for each in items(part(new, "spec"), "ephemeralContainers")}
    for each in items(part(old, "spec"), "ephemeralContainers"):
        name = text(each, "name")
        if name not in now:
            yield errors.not_allowed(path, f'existing ephemeral containers "{name}" may not be removed\n')
        elif now[name] != each:
            yield errors.not_allowed(path, f'existing ephemeral containers "{name}" may not be changed\n')


def resized_spec(now: Object, was: Object) -> Object:
    """Return the old spec with the new one's resources and resize policies."""
    spec = deepcopy(was)
    for key in ("containers", "initContainers"):
        fresh = items(now, key)
        if len(fresh) != len(items(spec, key)):
            spec[key] = fresh
            continue
        for each, change in zip(items(spec, key), fresh, strict=True):
            if text(each, "name") != text(change, "name"):
                each["name"] = text(change, "name")
            for member in ("resources", "resizePolicy"):
                _copy(each, change, member)
    _copy(spec, now, "resources")
    return spec


def _unresized(container: Object, before: Object) -> Object:
    """Return a container with its previous CPU and memory, to compare everything else with the previous container."""
    found = {key: value for key, value in container.items() if key != "resources"}
    amounts = {}
    for which in ("limits", "requests"):
        now, was = part(container, "resources", which), part(before, "resources", which)
        others = {name: value for name, value in now.items() if name not in _RESIZED}
        amounts[which] = others | {name: value for name, value in was.items() if name in _RESIZED}
    resources = {which: found for which, found in amounts.items() if found}
    return {**found, **({"resources": resources} if resources or "resources" in before else {})}


def resize_changes(new: Object, old: Object) -> Findings:
    """Yield the findings on a resize."""
    now, was = part(new, "spec"), part(old, "spec")
    if MIRROR in part(old, "metadata", "annotations"):
        yield errors.not_allowed("", "static pods cannot be resized")
        return
    if text(part(was, "os"), "name") == "windows":
        yield errors.not_allowed("", "windows pods cannot be resized")
        return
    order = list(_resize_order(now, was))
    yield from order
    if order:
        return
    for key in ("initContainers", "containers"):
        for index, (each, before) in enumerate(zip(items(now, key), items(was, key), strict=True)):
            yield from _removed(
                f"spec.{key}[{index}].resources", part(each, "resources"), part(before, "resources")
            )
    for each, before in zip(items(now, "containers"), items(was, "containers"), strict=True):
        if _unresized(each, before) != before:
            yield errors.not_allowed("spec", "only cpu and memory resources are mutable")
    pairs = zip(items(now, "initContainers"), items(was, "initContainers"), strict=True)
    for index, (each, before) in enumerate(pairs):
        yield from _init_resize(f"spec.initContainers[{index}]", each, before)


def _init_resize(path: str, now: Object, was: Object) -> Findings:
    if _unresized(now, was) != was:
        message = "only cpu and memory resources for init or sidecar containers are mutable"
        yield errors.not_allowed(path, message)
    if now != was and text(now, "restartPolicy") != "Always":
        for each in items(now, "resizePolicy"):
            if text(each, "restartPolicy") == "RestartContainer":
                message = (
                    "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
                )
                yield errors.not_allowed(path, message)


def _removed(path: str, now: Object, was: Object) -> Findings:
    for which, message in (("requests", "resource requests"), ("limits", "resource limits")):
        if any(name not in part(now, which) for name in part(was, which)):
            yield errors.not_allowed(f"{path}.{which}", f"{message} cannot be removed")


def _resize_order(now: Object, was: Object) -> Findings:
    for key in ("containers", "initContainers"):
        if len(items(now, key)) != len(items(was, key)):
            yield errors.not_allowed(f"spec.{key}", f"{key} may not be added or removed on resize")
            continue
        for index, (each, before) in enumerate(zip(items(now, key), items(was, key), strict=True)):
            if text(each, "name") != text(before, "name"):
                yield errors.not_allowed(
                    f"spec.{key}[{index}].name", f"{key} may not be renamed or reordered on resize"
                )
