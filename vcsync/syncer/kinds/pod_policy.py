"""Checks a tenant's Pod against the operator's policy for nodes that tenants share. Every refusal is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from vcsync.api.specs import PodPolicy
from vcsync.objects import images

Spec = Mapping[str, Any]

CONTAINER_FIELDS: Final = ("containers", "initContainers", "ephemeralContainers")

SAFE_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
"""The capabilities that Pod Security Standard "baseline" lets a container add; any other (in any spelling) needs `privileged`."""

SAFE_SELINUX_TYPES: Final = frozenset(
    {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
)
"""The SELinux types that "baseline" allows. Other types may be unconfined."""

SAFE_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
"""The sysctls that "baseline" allows. Kubelets may allow others for the operator's own Pods."""

UNCONFINED: Final = "Unconfined"

_HANDLED: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS: Final = ("postStart", "preStop")
_ACTIONS: Final = ("httpGet", "tcpSocket")

_OWN_VOLUMES: Final = frozenset({"emptyDir", "configMap", "secret", "downwardAPI", "projected", "image"})
"""Volumes whose content comes only from the Pod's namespace or from a registry."""
_OTHERWISE_CHECKED: Final = frozenset({"hostPath", "persistentVolumeClaim", "ephemeral"})

CONTROL_PLANE_TAINT_DOMAIN: Final = "node-role.kubernetes.io"
_CONDITION_TAINTS: Final = "node.kubernetes.io/"
"""Prefix of the taints that Kubernetes sets by node conditions. Every Pod tolerates some of them for a while."""

_CLAIM_FIELDS: Final = frozenset({"name", "resourceClaimName", "resourceClaimTemplateName"})
"""Fields of a Pod's reference to a ResourceClaim that are converted."""
_DEVICES_OF_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resources that stand for devices of a DeviceClass (resource/v1 ResourceDeviceClassPrefix)."""
_UNSUPPORTED_PROJECTIONS: Final[Mapping[str, str]] = {
    "clusterTrustBundle": "put the certificates into a ConfigMap",
    "podCertificate": "use a Secret with a certificate of your own",
}


def refusals(spec: Spec, policy: PodPolicy) -> Iterator[str]:
    """Yield the refusals of a Pod's spec: the path of the field, the reason and the remedy.

    Args:
        spec: the tenant Pod's spec.
        policy: the operator's policy.
    """
    for allowed, check in _CHECKS:
        if not allowed(policy):
            yield from check(spec)
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        if refusal := toleration_refusal(toleration, f"spec.tolerations[{index}]", policy):
            yield refusal
    if policy.privileged != "Allow":
        yield from _sysctls(spec, policy)
    for each in images.outside(spec, {}, policy.image_registries):
        yield _of_registry(each, policy)
    yield from _unsupported(spec)


def image_refusal(container: str, image: str, policy: PodPolicy) -> str | None:
    """Return why the new image of a container is refused; None if it is allowed."""
    if not policy.image_registries or images.is_allowed(image, policy.image_registries):
        return None
    return _of_registry(f'container "{container}" uses image {image!r}', policy)


def _of_registry(use: str, policy: PodPolicy) -> str:
    return f"{use}, which is not allowed here; use images of {', '.join(policy.image_registries)}"


def container_refusals(container: Spec, path: str, policy: PodPolicy) -> Iterator[str]:
    """Yield the refusals of one container, for ephemeral containers, which are added later than their Pod."""
    if policy.privileged != "Allow":
        yield from _privileged_container(container, path)
    if policy.host_port != "Allow":
        yield from _host_ports(container, path)
    if policy.host_network != "Allow":
        yield from _called_hosts(container, path)
    if refusal := image_refusal(container.get("name") or "", container.get("image") or "", policy):
        yield refusal


def toleration_refusal(toleration: Spec, path: str, policy: PodPolicy) -> str | None:
    """Return why a toleration is refused; None if it is allowed."""
    key = toleration.get("key") or ""
    control_plane = policy.control_plane_tolerations == "Allow"
    if not key and not (control_plane and policy.tolerations is None):
        taints = "every taint" if control_plane else "every taint, those of control plane nodes too"
        return f"{path} tolerates {taints}, which is not allowed here; name the taint in key"
    if key == CONTROL_PLANE_TAINT_DOMAIN or key.startswith(CONTROL_PLANE_TAINT_DOMAIN + "/"):
        if control_plane:
            return None
        return f"{path} tolerates taint {key} of control plane nodes, which is not allowed here; remove it"
    if policy.tolerations is None or key in policy.tolerations or key.startswith(_CONDITION_TAINTS):
        return None
    return f"{path} tolerates taint {key}, which is not allowed here; remove it"


def _flag(field: str) -> Callable[[Spec], Iterator[str]]:
    def check(spec: Spec) -> Iterator[str]:
        if spec.get(field):
            yield f"spec.{field} is not allowed here; remove it"

    return check


def _host_network(spec: Spec) -> Iterator[str]:
    yield from _flag("hostNetwork")(spec)
    for path, container in _containers(spec):
        yield from _called_hosts(container, path)


def _called_hosts(container: Spec, path: str) -> Iterator[str]:
    """Refuse hosts in probes and hooks: the kubelet calls them from the node's network, which reaches loopback and metadata."""
    handlers = [(name, container.get(name)) for name in _HANDLED]
    hooks = container.get("lifecycle") or {}
    handlers += [(f"lifecycle.{name}", hooks.get(name)) for name in _HOOKS]
    for name, handler in handlers:
        for action in _ACTIONS:
            if ((handler or {}).get(action) or {}).get("host"):
                yield f"{path}.{name}.{action}.host is not allowed here; remove it: the Pod itself is called then"


def _node_volumes(spec: Spec) -> Iterator[str]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for source, settings in volume.items():
            if source == "name" or settings is None or source in _OWN_VOLUMES | _OTHERWISE_CHECKED:
                continue
            yield (
                f"spec.volumes[{index}].{source} is not allowed here: the node mounts it with rights of its own; "
                "use emptyDir"
            )


def _host_path(spec: Spec) -> Iterator[str]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        if volume.get("hostPath") is not None:
            yield f"spec.volumes[{index}].hostPath is not allowed here; use emptyDir or a volume that is no part of the node"


def _containers(spec: Spec) -> Iterator[tuple[str, Spec]]:
    for field in CONTAINER_FIELDS:
        for index, container in enumerate(spec.get(field) or ()):
            yield f"spec.{field}[{index}]", container


def _all_host_ports(spec: Spec) -> Iterator[str]:
    for path, container in _containers(spec):
        yield from _host_ports(container, path)


def _host_ports(container: Spec, path: str) -> Iterator[str]:
    for index, port in enumerate(container.get("ports") or ()):
        if port.get("hostPort"):
            yield f"{path}.ports[{index}].hostPort is not allowed here; use a Service"


def _privileged(spec: Spec) -> Iterator[str]:
    yield from _unconfined(spec.get("securityContext"), "spec")
    for path, container in _containers(spec):
        yield from _privileged_container(container, path)


def _privileged_container(container: Spec, path: str) -> Iterator[str]:
    security = container.get("securityContext")
    if not security:
        return
    if security.get("privileged"):
        yield f"{path}.securityContext.privileged is not allowed here; remove it"
    if security.get("procMount", "Default") != "Default":
        yield f"{path}.securityContext.procMount must be Default here"
    for capability in (security.get("capabilities") or {}).get("add") or ():
        if capability not in SAFE_CAPABILITIES:
            yield f"{path}.securityContext.capabilities.add: {capability} is not allowed here; remove it"
    yield from _unconfined(security, path)


def _unconfined(security: Spec | None, path: str) -> Iterator[str]:
    """Refuse fields of a security context that remove a confinement by the kernel."""
    if not security:
        return
    path = f"{path}.securityContext"
    if (security.get("windowsOptions") or {}).get("hostProcess"):
        yield f"{path}.windowsOptions.hostProcess is not allowed here; remove it"
    for profile in ("seccompProfile", "appArmorProfile"):
        if (security.get(profile) or {}).get("type") == UNCONFINED:
            yield f"{path}.{profile}.type: {UNCONFINED} is not allowed here; remove it"
    options = security.get("seLinuxOptions") or {}
    if (kind := options.get("type") or "") not in SAFE_SELINUX_TYPES:
        yield f"{path}.seLinuxOptions.type: {kind} is not allowed here; remove it"
    for field in ("user", "role"):
        if options.get(field):
            yield f"{path}.seLinuxOptions.{field} is not allowed here; remove it"


def _sysctls(spec: Spec, policy: PodPolicy) -> Iterator[str]:
    for index, sysctl in enumerate((spec.get("securityContext") or {}).get("sysctls") or ()):
        name = sysctl.get("name") or ""
        if name in SAFE_SYSCTLS or any(_matches(name, pattern) for pattern in policy.sysctls):
            continue
        yield f"spec.securityContext.sysctls[{index}]: {name} is not allowed here; remove it, or ask the operator"


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _node_name(spec: Spec) -> Iterator[str]:
    if spec.get("nodeName"):
        yield "spec.nodeName is not allowed here: it bypasses scheduling; use spec.nodeSelector or node affinity"


def _unsupported(spec: Spec) -> Iterator[str]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        projected = volume.get("projected")
        if projected is None:
            continue
        for position, projection in enumerate(projected.get("sources") or ()):
            for source, remedy in _UNSUPPORTED_PROJECTIONS.items():
                if projection.get(source) is not None:
                    path = f"spec.volumes[{index}].projected.sources[{position}].{source}"
                    yield f"{path} is not supported here; {remedy}"
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        for field in claim.keys() - _CLAIM_FIELDS:
            yield f"spec.resourceClaims[{index}].{field} is not supported here; name a ResourceClaim or a template"
    for path, container in _containers(spec):
        yield from _devices_without_claim(container, path)


def _devices_without_claim(container: Spec, path: str) -> Iterator[str]:
    """Refuse devices by class name: they need neither a published class nor a claim that the slices limit."""
    resources = container.get("resources") or {}
    requested = {*(resources.get("requests") or ()), *(resources.get("limits") or ())}
    for name in sorted(requested):
        if name.startswith(_DEVICES_OF_CLASS):
            yield f"{path}.resources: {name} is not supported here; use a ResourceClaim in spec.resourceClaims"


_CHECKS: Final[tuple[tuple[Callable[[PodPolicy], bool], Callable[[Spec], Iterator[str]]], ...]] = (
    (lambda policy: policy.host_network == "Allow", _host_network),
    (lambda policy: policy.host_pid == "Allow", _flag("hostPID")),
    (lambda policy: policy.host_ipc == "Allow", _flag("hostIPC")),
    (lambda policy: policy.host_path == "Allow", _host_path),
    (lambda policy: policy.node_volumes == "Allow", _node_volumes),
    (lambda policy: policy.host_port == "Allow", _all_host_ports),
    (lambda policy: policy.privileged == "Allow", _privileged),
    (lambda policy: policy.node_name == "Allow", _node_name),
)
