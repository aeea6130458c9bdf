"""Validation of the annotations that Kubernetes reads on Pods. Pure.

Source: `ValidatePodSpecificAnnotations` and `validateSeccompAnnotationsAndFields` in Kubernetes'
`pkg/apis/core/validation`.
"""

from collections.abc import Mapping
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.paths import descending
from vcsync.apimachinery.kinds.core.pod_defaults import containers
from vcsync.apimachinery.validation.fields import Findings, Object, part, text
from vcsync.patterns.linear import linear

MIRROR = "kubernetes.io/config.mirror"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_LOCAL = "localhost/"
_INTEGER = linear(r"-?(0|[1-9][0-9]{0,10})")


def pod_annotations(path: str, found: Mapping[str, Any], spec: Object) -> Findings:
    """Check the annotations of a Pod or template."""
    if MIRROR in found and not text(spec, "nodeName"):
        yield errors.wrong(
            f"{path}[{MIRROR}]", found[MIRROR], "must set spec.nodeName if mirror pod annotation is set"
        )
    cost = found.get(_COST)
    if cost is not None and not (_INTEGER.fullmatch(cost) and cost != "-0" and -(2**31) <= int(cost) < 2**31):
        yield errors.wrong(f"{path}[{_COST}]", cost, "must be a 32bit integer")
    for key, value in found.items():
        if key == _SECCOMP_POD or key.startswith(_SECCOMP_CONTAINER):
            yield from _seccomp(f"{path}.{key}", value)
    known = {text(each, "name") for _, _, each in containers(spec, ephemeral=True)}
    for key, value in found.items():
        if key.startswith(APP_ARMOR):
            name = key.removeprefix(APP_ARMOR)
            if name not in known:
                yield errors.wrong(f"{path}[{key}]", name, "container not found")
            if value not in ("", "runtime/default", "unconfined") and not value.startswith(_LOCAL):
                yield errors.wrong(
                    f"{path}[{key}]", value, f"invalid AppArmor profile name: {errors.value_text(value)}"
                )


def _seccomp(path: str, value: str) -> Findings:
    if value.startswith(_LOCAL):
        yield from descending(path, value.removeprefix(_LOCAL))
    elif value not in ("runtime/default", "docker/default", "unconfined"):
        yield errors.wrong(path, value, "must be a valid seccomp profile")


def annotations_and_fields(path: str, found: Mapping[str, Any], spec: Object) -> Findings:
    """Check that deprecated annotations and the fields that replaced them agree."""
    yield from _agree(
        f"{path}.securityContext.seccompProfile",
        found.get(_SECCOMP_POD),
        part(spec, "securityContext", "seccompProfile"),
        "seccomp",
    )
    for key, index, each in containers(spec, ephemeral=True):
        yield from _agree(
            f"{path}.{key}[{index}].securityContext.seccompProfile",
            found.get(_SECCOMP_CONTAINER + text(each, "name")),
            part(each, "securityContext", "seccompProfile"),
            "seccomp",
        )
    if text(part(spec, "os"), "name") == "windows":
        return
    whole = part(spec, "securityContext", "appArmorProfile")
    for key, index, each in containers(spec, ephemeral=True):
        yield from _agree(
            f"{path}.{key}[{index}].securityContext.appArmorProfile",
            found.get(APP_ARMOR + text(each, "name")),
            part(each, "securityContext", "appArmorProfile") or whole,
            "apparmor",
        )


_EXPECTED = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default", "docker/default")}


def _agree(path: str, annotation: str | None, profile: Object, what: str) -> Findings:
    if annotation is None or not profile:
        return
    kind = text(profile, "type")
    message = f"{what} type in annotation and field must match"
    if kind == "Localhost":
        if not annotation.startswith(_LOCAL):
            yield errors.not_allowed(f"{path}.type", message)
        elif annotation.removeprefix(_LOCAL) != profile.get("localhostProfile"):
            yield errors.not_allowed(
                f"{path}.localhostProfile", f"{what} profile in annotation and field must match"
            )
    elif kind in _EXPECTED and annotation not in _EXPECTED[kind]:
        yield errors.not_allowed(f"{path}.type", message)
