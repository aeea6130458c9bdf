"""Warnings about Pods and pod templates. Pure.

Source: Kubernetes' `pkg/api/pod/warnings.go`.
"""

from collections.abc import Iterator
from typing import Any

from vcsync.apimachinery.kinds.common.node_labels import deprecated_label, node_term_warnings
from vcsync.apimachinery.kinds.core.overlapping_paths import overlapping_paths
from vcsync.apimachinery.kinds.core.pod_annotations import APP_ARMOR
from vcsync.apimachinery.kinds.core.pod_defaults import containers
from vcsync.apimachinery.kinds.core.resources import milli
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Object, items, part, text

_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_VOLUMES = {
    "photonPersistentDisk": ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    "gitRepo": ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "flocker": ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "quobyte": ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}
_NULL_SELECTOR = "a null labelSelector results in matching no pod"
_MOST_PORTS = 100
"""Largest number of definitions of one port that a further definition is compared with."""
_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'


def pod_warnings(new: Object, old: Object | None) -> list[str]:
    """Return the warnings about a Pod. Updates have none."""
    if old is not None:
        return []
    found = []
    name = text(part(new, "metadata"), "name")
    if wrong := names.dns_label(name):
        found.append(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior;"
            f" a DNS label is recommended: {listed(wrong)}"
        )
    return found + list(_warnings("", part(new, "spec"), part(new, "metadata", "annotations")))


def template_warnings(path: str, template: Object) -> list[str]:
    """Return the warnings about a pod template."""
    return list(_warnings(f"{path}.", part(template, "spec"), part(template, "metadata", "annotations")))


def listed(texts: list[str]) -> str:
    """Format texts as Go prints a slice."""
    return f"[{' '.join(texts)}]"


def _warnings(base: str, spec: Object, annotations: Object) -> Iterator[str]:
    path = f"{base}spec"
    yield from _placement(path, spec)
    for key, message in _ANNOTATIONS.items():
        if key in annotations:
            yield f"{base}metadata.annotations[{key}]: {message}"
    for index, volume in enumerate(items(spec, "volumes")):
        for key, (place, message) in _VOLUMES.items():
            if key in volume:
                yield f"{path}.volumes[{index}].{place}: {message}"
    yield from overlapping_paths(spec)
    yield from _duplicates(f"{path}.hostAliases", items(spec, "hostAliases"), "ip")
    yield from _duplicates(f"{path}.imagePullSecrets", items(spec, "imagePullSecrets"), "name")
    for index, each in enumerate(items(spec, "imagePullSecrets")):
        if not text(each, "name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'
    yield from _fractions(f"{path}.overhead", part(spec, "overhead"))
    seccomp = "seccomp.security.alpha.kubernetes.io/pod"
    if seccomp in annotations and "seccompProfile" not in part(spec, "securityContext"):
        yield f"{base}metadata.annotations[{seccomp}]: {_SECCOMP}"
    yield from _containers(base, path, spec, annotations)
    yield from _ports(path, spec)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        yield (
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        )
    yield from _pod_affinity(path, spec)


def _placement(path: str, spec: Object) -> Iterator[str]:
    for key in part(spec, "nodeSelector"):
        if message := deprecated_label(key):
            yield f"{path}.nodeSelector[{key}]: {message}"
    nodes = part(spec, "affinity", "nodeAffinity")
    here = f"{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    required = part(nodes, "requiredDuringSchedulingIgnoredDuringExecution")
    for index, each in enumerate(items(required, "nodeSelectorTerms")):
        yield from node_term_warnings(f"{here}[{index}]", each, weighted=False)
    here = f"{path}.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    for index, each in enumerate(items(nodes, "preferredDuringSchedulingIgnoredDuringExecution")):
        yield from node_term_warnings(f"{here}[{index}].preference", part(each, "preference"), weighted=True)
    for index, each in enumerate(items(spec, "topologySpreadConstraints")):
        key = text(each, "topologyKey")
        if message := deprecated_label(key):
            yield f"{path}.topologySpreadConstraints[{index}].topologyKey: {key} is {message}"
        if "labelSelector" not in each:
            yield f"{path}.topologySpreadConstraints[{index}].labelSelector: {_NULL_SELECTOR}"


def _duplicates(path: str, found: list[Object], key: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, each in enumerate(found):
        value = text(each, key)
        if value in seen:
            yield f'{path}[{index}].{key}: duplicate {key} "{value}"'
        seen.add(value)


def _fractions(path: str, found: Object) -> Iterator[str]:
    for name in ("memory", "ephemeral-storage"):
        if name in found and milli(found[name]) % 1000:
            yield f'{path}[{name}]: fractional byte value "{found[name]}" is invalid, must be an integer'


def _containers(base: str, path: str, spec: Object, annotations: Object) -> Iterator[str]:
    whole = part(spec, "securityContext", "appArmorProfile")
    for key, index, each in containers(spec, ephemeral=True):
        here, name = f"{path}.{key}[{index}]", text(each, "name")
        old = f"container.seccomp.security.alpha.kubernetes.io/{name}"
        if old in annotations and "seccompProfile" not in part(each, "securityContext"):
            yield f"{base}metadata.annotations[{old}]: {_SECCOMP}"
        armour = f"{APP_ARMOR}{name}"
        if (
            base
            and armour in annotations
            and not whole
            and "appArmorProfile" not in part(each, "securityContext")
        ):
            yield f'{base}metadata.annotations[{armour}]: deprecated since v1.30; use the "appArmorProfile" field instead'
        limits, requests = part(each, "resources", "limits"), part(each, "resources", "requests")
        for name_of in ("memory", "ephemeral-storage"):
            for which, asked in (("limits", limits), ("requests", requests)):
                if name_of in asked:
                    yield from _fractions(f"{here}.resources.{which}", {name_of: asked[name_of]})
        yield from _environment(f"{here}.env", items(each, "env"))


def _environment(path: str, found: list[Object]) -> Iterator[str]:
    seen: set[str] = set()
    for index, each in enumerate(found):
        name, value = text(each, "name"), text(each, "value")
        reference = f"$({name})"
        if name in seen and ("valueFrom" in each or value == reference or reference not in value):
            yield (
                f'{path}[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
            )
        seen.add(name)


def _ports(path: str, spec: Object) -> Iterator[str]:
    seen: dict[tuple[Any, str], list[tuple[str, Object]]] = {}
    by_name: dict[str, str] = {}
    names_told = []
    for key, index, container in containers(spec, ephemeral=True):
        for place, port in enumerate(items(container, "ports")):
            here = f"{path}.{key}[{index}].ports[{place}]"
            if text(port, "hostIP") and not port.get("hostPort"):
                yield f"{here}: hostIP set without hostPort: {_go_port(port)}"
            others = seen.setdefault((port.get("containerPort"), text(port, "protocol")), [])
            for where, other in others[:_MOST_PORTS]:
                if message := _overlap(port, other):
                    yield f"{here}: {message} port definition with {where}"
            others.append((here, port))
            name = text(port, "name")
            if name and name in by_name:
                first = by_name[name]
                names_told.append(
                    f'{here}: duplicate port name "{name}" with {first}, services and probes that select ports by name'
                    f" will use {first}"
                )
            elif name:
                by_name[name] = here
    yield from names_told


def _go_port(port: Object) -> str:
    name, protocol, address = text(port, "name"), text(port, "protocol"), text(port, "hostIP")
    return f"{{Name:{name} HostPort:0 ContainerPort:{port.get('containerPort', 0)} Protocol:{protocol} HostIP:{address}}}"


def _overlap(port: Object, other: Object) -> str:
    host, ip = port.get("hostPort", 0), text(port, "hostIP")
    other_host, other_ip = other.get("hostPort", 0), text(other, "hostIP")
    if (host, ip) == (other_host, other_ip):
        return "duplicate"
    if not host or not other_host:
        return "overlapping"
    return "dangerously ambiguous" if host == other_host and bool(ip) != bool(other_ip) else ""


def _pod_affinity(path: str, spec: Object) -> Iterator[str]:
    for key in ("podAffinity", "podAntiAffinity"):
        group = part(spec, "affinity", key)
        here = f"{path}.affinity.{key}"
        for index, each in enumerate(items(group, "requiredDuringSchedulingIgnoredDuringExecution")):
            if "labelSelector" not in each:
                yield f"{here}.requiredDuringSchedulingIgnoredDuringExecution[{index}].labelSelector: {_NULL_SELECTOR}"
        for index, each in enumerate(items(group, "preferredDuringSchedulingIgnoredDuringExecution")):
            if "labelSelector" not in part(each, "podAffinityTerm"):
                yield (
                    f"{here}.preferredDuringSchedulingIgnoredDuringExecution[{index}].podAffinityTerm.labelSelector:"
                    f" {_NULL_SELECTOR}"
                )
