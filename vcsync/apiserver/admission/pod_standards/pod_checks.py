"""The checks of the Pod Security Standards, by version of the standard. Pure.

Source: `policy/` of k8s.io/pod-security-admission and
https://kubernetes.io/docs/concepts/security/pod-security-standards/.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.pod_standards.word_lists import plural, quoted

Violation = tuple[str, str]
"""Reason and detail."""
Check = Callable[[Object, Object], Violation | None]
"""(metadata, spec) of a Pod -> its violation of the check, or None."""

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_RUNTIME, _LOCAL = "RuntimeDefault", "Localhost"
_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD, _SECCOMP = (
    "seccomp.security.alpha.kubernetes.io/pod",
    "container.seccomp.security.alpha.kubernetes.io/",
)
_SELINUX = {"", "container_t", "container_init_t", "container_kvm_t"}
_SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start",
}  # fmt: skip
_SYSCTLS_27 = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}  # fmt: skip
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_ALLOWED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
_RESTRICTED_VOLUMES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd",
    "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk",
    "photonPersistentDisk", "portworxVolume", "scaleIO", "storageos",
)  # fmt: skip


def _containers(spec: Object) -> Iterable[Object]:
    for field in _CONTAINERS:
        yield from spec.get(field) or ()


def _context(holder: Object) -> Object:
    found: Object = holder.get("securityContext") or {}
    return found


def _named(names: Sequence[str]) -> str:
    return f"{plural('container', len(names))} {quoted(names)}"


def _bad(spec: Object, wrong: Callable[[Object], bool]) -> list[str]:
    """Return the names of containers whose securityContext is wrong."""
    return [each.get("name", "") for each in _containers(spec) if wrong(_context(each))]


def _setters(spec: Object, wrong: Callable[[Object], bool]) -> str:
    """Name the Pod and the containers whose securityContext is wrong, for a message."""
    names = _bad(spec, wrong)
    found = ["pod"] if wrong(_context(spec)) else []
    return " and ".join([*found, _named(names)] if names else found)


def _is_windows(spec: Object) -> bool:
    return (spec.get("os") or {}).get("name") == "windows"


def _not_on_windows(check: Check) -> Check:
    return lambda metadata, spec: None if _is_windows(spec) else check(metadata, spec)


def _not_in_user_namespaces(check: Check) -> Check:
    return lambda metadata, spec: None if spec.get("hostUsers") is False else check(metadata, spec)


def _privilege_escalation(_metadata: Object, spec: Object) -> Violation | None:
    names = _bad(spec, lambda context: context.get("allowPrivilegeEscalation") is not False)
    said = f"{_named(names)} must set securityContext.allowPrivilegeEscalation=false"
    return ("allowPrivilegeEscalation != false", said) if names else None


def _apparmor(metadata: Object, spec: Object) -> Violation | None:
    values: set[str] = set()

    def wrong(context: Object) -> bool:
        profile = context.get("appArmorProfile")
        if profile is None or profile.get("type") in (_RUNTIME, _LOCAL):
            return False
        values.add(profile.get("type") or "")
        return True

    setters = _setters(spec, wrong)
    annotations = sorted(
        f"{key}={quoted([value])}"
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(_APPARMOR)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    if annotations:
        setters = " and ".join(each for each in (setters, plural("annotation", len(annotations))) if each)
    shown = [*sorted(values), *annotations]
    if not setters:
        return None
    return (
        plural("forbidden AppArmor profile", len(shown)),
        f"{setters} must not set AppArmor profile type to {quoted(shown)}",
    )


def _forbidden_capabilities(spec: Object, allowed: set[str]) -> tuple[list[str], list[str]]:
    forbidden: set[str] = set()

    def wrong(context: Object) -> bool:
        added = set((context.get("capabilities") or {}).get("add") or ()) - allowed
        forbidden.update(added)
        return bool(added)

    return _bad(spec, wrong), sorted(forbidden)


def _capabilities(_metadata: Object, spec: Object) -> Violation | None:
    names, forbidden = _forbidden_capabilities(spec, _CAPABILITIES)
    said = f"{_named(names)} must not include {quoted(forbidden)} in securityContext.capabilities.add"
    return ("non-default capabilities", said) if names else None


def _restricted_capabilities(_metadata: Object, spec: Object) -> Violation | None:
    keeping = _bad(spec, lambda context: "ALL" not in ((context.get("capabilities") or {}).get("drop") or ()))
    adding, forbidden = _forbidden_capabilities(spec, {"NET_BIND_SERVICE"})
    said = []
    if keeping:
        said.append(f'{_named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        said.append(
            f"{_named(adding)} must not include {quoted(forbidden)} in securityContext.capabilities.add"
        )
    return ("unrestricted capabilities", "; ".join(said)) if said else None


def _host_namespaces(_metadata: Object, spec: Object) -> Violation | None:
    found = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return ("host namespaces", ", ".join(found)) if found else None


def _host_paths(_metadata: Object, spec: Object) -> Violation | None:
    names = [each.get("name", "") for each in spec.get("volumes") or () if each.get("hostPath") is not None]
    return ("hostPath volumes", f"{plural('volume', len(names))} {quoted(names)}") if names else None


def _host_ports(_metadata: Object, spec: Object) -> Violation | None:
    names, ports = [], set()
    for container in _containers(spec):
        used = {str(each["hostPort"]) for each in container.get("ports") or () if each.get("hostPort")}
        if used:
            names.append(container.get("name", ""))
            ports |= used
    uses = "uses" if len(names) == 1 else "use"
    said = f"{_named(names)} {uses} {plural('hostPort', len(ports))} {', '.join(sorted(ports))}"
    return ("hostPort", said) if names else None


def _hosts(container: Object) -> set[str]:
    lifecycle = container.get("lifecycle") or {}
    handlers: list[Any] = [container.get(f"{when}Probe") for when in ("liveness", "readiness", "startup")]
    handlers += [lifecycle.get("postStart"), lifecycle.get("preStop")]
    return {
        how["host"]
        for handler in handlers
        for how in ((handler or {}).get("httpGet"), (handler or {}).get("tcpSocket"))
        if how and how.get("host")
    }


def _probe_hosts(_metadata: Object, spec: Object) -> Violation | None:
    by_name = {each.get("name", ""): _hosts(each) for each in _containers(spec)}
    names = sorted(name for name, hosts in by_name.items() if hosts)
    hosts = sorted(set[str]().union(*by_name.values()))
    uses = "uses" if len(names) == 1 else "use"
    what = plural("probe or lifecycle host", len(hosts))
    return ("probe or lifecycle host", f"{_named(names)} {uses} {what} {quoted(hosts)}") if names else None


def _privileged(_metadata: Object, spec: Object) -> Violation | None:
    names = _bad(spec, lambda context: bool(context.get("privileged")))
    return ("privileged", f"{_named(names)} must not set securityContext.privileged=true") if names else None


def _proc_mount(_metadata: Object, spec: Object) -> Violation | None:
    kinds = {_context(each).get("procMount", "Default") for each in _containers(spec)} - {"Default"}
    names = _bad(spec, lambda context: context.get("procMount", "Default") != "Default")
    said = f"{_named(names)} must not set securityContext.procMount to {quoted(sorted(kinds))}"
    return ("procMount", said) if names else None


def _volumes(_metadata: Object, spec: Object) -> Violation | None:
    names, kinds = [], set()
    for volume in spec.get("volumes") or ():
        if not any(volume.get(kind) is not None for kind in _ALLOWED_VOLUMES):
            names.append(volume.get("name", ""))
            kinds.add(next((kind for kind in _RESTRICTED_VOLUMES if volume.get(kind) is not None), "unknown"))
    what = plural("restricted volume type", len(kinds))
    said = f"{plural('volume', len(names))} {quoted(names)} {'uses' if len(names) == 1 else 'use'} {what} "
    return ("restricted volume types", said + quoted(sorted(kinds))) if names else None


def _non_root(_metadata: Object, spec: Object) -> Violation | None:
    setters = _setters(spec, lambda context: context.get("runAsNonRoot") is False)
    if setters:
        return "runAsNonRoot != true", f"{setters} must not set securityContext.runAsNonRoot=false"
    if _context(spec).get("runAsNonRoot"):
        return None
    names = _bad(spec, lambda context: context.get("runAsNonRoot") is None)
    said = f"pod or {_named(names)} must set securityContext.runAsNonRoot=true"
    return ("runAsNonRoot != true", said) if names else None


def _user(_metadata: Object, spec: Object) -> Violation | None:
    setters = _setters(spec, lambda context: context.get("runAsUser") == 0)
    return ("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def _selinux(allowed: set[str]) -> Check:
    def check(_metadata: Object, spec: Object) -> Violation | None:
        kinds: set[str] = set()
        named: set[str] = set()

        def wrong(context: Object) -> bool:
            options = context.get("seLinuxOptions") or {}
            kind = options.get("type") or ""
            set_here = {field for field in ("user", "role") if options.get(field)}
            kinds.update({kind} - allowed)
            named.update(set_here)
            return kind not in allowed or bool(set_here)

        setters = _setters(spec, wrong)
        said = [f"{plural('type', len(kinds))} {quoted(sorted(kinds))}"] if kinds else []
        said += [f"{field} may not be set" for field in ("user", "role") if field in named]
        detail = f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(said)}"
        return ("seLinuxOptions", detail) if setters else None

    return check


def _seccomp_annotations(metadata: Object, spec: Object) -> Violation | None:
    annotations = metadata.get("annotations") or {}
    keys = [_SECCOMP_POD, *(f"{_SECCOMP}{each.get('name', '')}" for each in _containers(spec))]
    found = sorted(
        {
            f"{key}={quoted([annotations[key]])}"
            for key in keys
            if key in annotations
            and annotations[key] not in ("runtime/default", "docker/default")
            and not annotations[key].startswith("localhost/")
        }
    )
    said = f"forbidden {plural('annotation', len(found))} {', '.join(found)}"
    return ("seccompProfile", said) if found else None


def _seccomp(_metadata: Object, spec: Object) -> Violation | None:
    values: set[str] = set()

    def wrong(context: Object) -> bool:
        profile = context.get("seccompProfile")
        if profile is None or profile.get("type") in (_RUNTIME, _LOCAL):
            return False
        values.add(profile.get("type") or "")
        return True

    setters = _setters(spec, wrong)
    said = f"{setters} must not set securityContext.seccompProfile.type to {quoted(sorted(values))}"
    return ("seccompProfile", said) if setters else None


def _restricted_seccomp(metadata: Object, spec: Object) -> Violation | None:
    found = _seccomp(metadata, spec)
    if found or _context(spec).get("seccompProfile") is not None:
        return found
    names = _bad(spec, lambda context: context.get("seccompProfile") is None)
    said = (
        f'pod or {_named(names)} must set securityContext.seccompProfile.type to "{_RUNTIME}" or "{_LOCAL}"'
    )
    return ("seccompProfile", said) if names else None


def _sysctls(allowed: set[str]) -> Check:
    def check(_metadata: Object, spec: Object) -> Violation | None:
        names = [each.get("name", "") for each in _context(spec).get("sysctls") or ()]
        forbidden = [name for name in names if name not in allowed]
        return ("forbidden sysctls", ", ".join(forbidden)) if forbidden else None

    return check


def _host_process(_metadata: Object, spec: Object) -> Violation | None:
    setters = _setters(spec, lambda context: bool((context.get("windowsOptions") or {}).get("hostProcess")))
    said = f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
    return ("hostProcess", said) if setters else None


@dataclass(frozen=True, slots=True)
class Rule:
    """One check.

    Attributes:
        name: Name of the check. Violations are sorted by it, those of baseline first.
        restricted: Whether only the level restricted includes it.
        versions: (first minor version, check), ascending.
        instead_of: Name of the baseline rule that it replaces.
    """

    name: str
    restricted: bool
    versions: Sequence[tuple[int, Check]]
    instead_of: str = ""

    def at(self, minor: int) -> Check | None:
        """Return the check of a version of the standard, or None if the version has none."""
        return next((check for first, check in reversed(self.versions) if first <= minor), None)


RULES = (
    Rule("appArmorProfile", False, [(0, _apparmor)]),
    Rule("capabilities_baseline", False, [(0, _capabilities)]),
    Rule("hostNamespaces", False, [(0, _host_namespaces)]),
    Rule("hostPathVolumes", False, [(0, _host_paths)]),
    Rule("hostPorts", False, [(0, _host_ports)]),
    Rule("hostProbesAndHostLifecycle", False, [(34, _probe_hosts)]),
    Rule("privileged", False, [(0, _privileged)]),
    Rule("procMount", False, [(0, _proc_mount), (35, _not_in_user_namespaces(_proc_mount))]),
    Rule(
        "seLinuxOptions", False, [(0, _selinux(_SELINUX)), (31, _selinux(_SELINUX | {"container_engine_t"}))]
    ),
    Rule("seccompProfile_baseline", False, [(0, _seccomp_annotations), (19, _seccomp)]),
    Rule(
        "sysctls",
        False,
        [
            (0, _sysctls(_SYSCTLS)),
            (27, _sysctls(_SYSCTLS_27)),
            (29, _sysctls(_SYSCTLS_29)),
            (32, _sysctls(_SYSCTLS_32)),
        ],
    ),
    Rule("windowsHostProcess", False, [(0, _host_process)]),
    Rule(
        "allowPrivilegeEscalation",
        True,
        [(8, _privilege_escalation), (25, _not_on_windows(_privilege_escalation))],
    ),
    Rule(
        "capabilities_restricted",
        True,
        [(22, _restricted_capabilities), (25, _not_on_windows(_restricted_capabilities))],
        "capabilities_baseline",
    ),
    Rule("procMount_restricted", True, [(35, _proc_mount)], "procMount"),
    Rule("restrictedVolumes", True, [(0, _volumes)], "hostPathVolumes"),
    Rule("runAsNonRoot", True, [(0, _non_root), (35, _not_in_user_namespaces(_non_root))]),
    Rule("runAsUser", True, [(23, _user), (35, _not_in_user_namespaces(_user))]),
    Rule(
        "seccompProfile_restricted",
        True,
        [(19, _restricted_seccomp), (25, _not_on_windows(_restricted_seccomp))],
        "seccompProfile_baseline",
    ),
)


def findings(restricted: bool, minor: int, metadata: Object, spec: Object) -> list[Violation]:
    """Return the violations of a level by a Pod, in the order of messages.

    Args:
        restricted: Whether the level is restricted. Otherwise it is baseline.
        minor: Minor version of the standard: 1.`minor`.
        metadata: `metadata` of the Pod.
        spec: `spec` of the Pod.
    """
    effective = [(rule, rule.at(minor)) for rule in RULES if restricted or not rule.restricted]
    replaced = {rule.instead_of for rule, check in effective if check is not None}
    results = (
        check(metadata, spec) for rule, check in effective if check is not None and rule.name not in replaced
    )
    return [violation for violation in results if violation is not None]
