"""Validation of security contexts and of the fields that an operating system allows. Pure.

Source: `ValidateSecurityContext`, `validatePodSpecSecurityContext`, `validateWindows` and around in Kubernetes'
`pkg/apis/core/validation`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.paths import descending
from vcsync.apimachinery.kinds.core.pod_defaults import containers
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    id_number,
    indexed,
    items,
    one_of,
    part,
    say,
    text,
)
from vcsync.patterns.linear import linear

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"({_SYSCTL_SEGMENT}[\./])*{_SYSCTL_SEGMENT}"
_IS_SYSCTL = linear(_SYSCTL)
_CONTROL = linear(r"[\x00-\x1f\x7f]")
_NOT_IN_USERS = linear(r'["/\\:;|=,+*?<>@\[\]]')
_NET_BIOS = linear(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS = linear(
    r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*"
)
_SELINUX_CHANGES = ("Recursive",)
"""Supported SELinux change policies. `MountOption` needs the feature SELinuxMount, which is off by default."""
_LINUX_POD_FIELDS = (
    ("securityContext", "appArmorProfile"),
    ("securityContext", "seLinuxOptions"),
    ("", "hostUsers"),
    ("", "hostPID"),
    ("", "hostIPC"),
    ("securityContext", "seccompProfile"),
    ("securityContext", "fsGroup"),
    ("securityContext", "fsGroupChangePolicy"),
    ("securityContext", "sysctls"),
    ("", "shareProcessNamespace"),
    ("securityContext", "runAsUser"),
    ("securityContext", "runAsGroup"),
    ("securityContext", "supplementalGroups"),
    ("securityContext", "supplementalGroupsPolicy"),
    ("securityContext", "seLinuxChangePolicy"),
)
_LINUX_CONTAINER_FIELDS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def seccomp(path: str, found: Object | None) -> Findings:
    """Check a seccomp profile."""
    if found is None:
        return
    kind = text(found, "type")
    if not kind:
        yield errors.required(f"{path}.type", "type is required when seccompProfile is set")
    else:
        yield from one_of(f"{path}.type", kind, _PROFILES)
    profile = found.get("localhostProfile")
    if kind == "Localhost":
        if profile is None:
            yield errors.required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
        else:
            yield from descending(f"{path}.localhostProfile", profile)
    elif profile is not None:
        shown = {"Type": kind, "LocalhostProfile": profile}
        yield errors.wrong(
            f"{path}.localhostProfile", shown, "can only be set when seccomp type is Localhost"
        )


def app_armor(path: str, found: Object | None) -> Findings:
    """Check an AppArmor profile."""
    if found is None:
        return
    kind, profile, here = text(found, "type"), found.get("localhostProfile"), f"{path}.localhostProfile"
    if kind == "Localhost":
        yield from _app_armor_profile(here, profile)
    elif kind in _PROFILES:
        if profile is not None:
            yield errors.wrong(here, profile, "can only be set when AppArmor type is Localhost")
    elif not kind:
        yield errors.required(f"{path}.type", "type is required when appArmorProfile is set")
    else:
        yield errors.not_supported(f"{path}.type", kind, _PROFILES)


def _app_armor_profile(path: str, profile: str | None) -> Findings:
    if profile is None:
        yield errors.required(path, "must be set when AppArmor type is Localhost")
        return
    if profile != profile.strip():
        yield errors.wrong(path, profile, "must not be padded with whitespace")
    elif not profile:
        yield errors.required(path, "must be set when AppArmor type is Localhost")
    if names.size(profile) > 4095:
        yield errors.too_long(path, 4095)


def container_security(path: str, found: Object, host_users: bool) -> Findings:
    """Check a container's security context."""
    yield from id_number(f"{path}.runAsUser", found.get("runAsUser"))
    yield from id_number(f"{path}.runAsGroup", found.get("runAsGroup"))
    mount = found.get("procMount")
    if mount is not None:
        yield from one_of(f"{path}.procMount", mount, ("Default", "Unmasked"))
        if host_users and mount == "Unmasked":
            yield errors.wrong(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    yield from seccomp(f"{path}.seccompProfile", found.get("seccompProfile"))
    if found.get("allowPrivilegeEscalation") is False:
        yield from _escalation(path, found)
    yield from _windows_options(f"{path}.windowsOptions", found.get("windowsOptions"))
    yield from app_armor(f"{path}.appArmorProfile", found.get("appArmorProfile"))


_SHOWN = (
    ("Capabilities", "capabilities", ("Add", "Drop")),
    ("Privileged", "privileged", ()),
    ("SELinuxOptions", "seLinuxOptions", ("User", "Role", "Type", "Level")),
    (
        "WindowsOptions",
        "windowsOptions",
        ("GMSACredentialSpecName", "GMSACredentialSpec", "RunAsUserName", "HostProcess"),
    ),
    ("RunAsUser", "runAsUser", ()),
    ("RunAsGroup", "runAsGroup", ()),
    ("RunAsNonRoot", "runAsNonRoot", ()),
    ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", ()),
    ("AllowPrivilegeEscalation", "allowPrivilegeEscalation", ()),
    ("ProcMount", "procMount", ()),
    ("SeccompProfile", "seccompProfile", ("Type", "LocalhostProfile")),
    ("AppArmorProfile", "appArmorProfile", ("Type", "LocalhostProfile")),
)
"""Fields of a security context as messages show them: Go name, field, Go names of its members."""


def _shown(found: Object) -> Object:
    shown: Object = {}
    for name, key, members in _SHOWN:
        value = found.get(key)
        if isinstance(value, dict):
            empty = "" if key == "seLinuxOptions" else None
            given = {each.lower(): inner for each, inner in value.items()}
            value = {member: given.get(member.lower(), empty) for member in members}
        shown[name] = value
    return shown


def _escalation(path: str, found: Object) -> Findings:
    shown = _shown(found)
    if found.get("privileged"):
        yield errors.wrong(
            path, shown, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        )
    for each in items(part(found, "capabilities"), "add"):
        if each == "CAP_SYS_ADMIN":
            yield errors.wrong(
                path,
                shown,
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            )


def pod_security(path: str, found: Object, spec: Object) -> Findings:
    """Check a Pod's security context."""
    for key in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from id_number(f"{path}.{key}", found.get(key))
    for each, here in indexed(found, "supplementalGroups", f"{path}.supplementalGroups"):
        yield from id_number(here, each)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        yield errors.wrong(
            f"{path}.shareProcessNamespace", True, "ShareProcessNamespace and HostPID cannot both be enabled"
        )
    yield from _sysctls(f"{path}.sysctls", found, spec)
    if "fsGroupChangePolicy" in found:
        yield from one_of(
            f"{path}.fsGroupChangePolicy", found["fsGroupChangePolicy"], ("Always", "OnRootMismatch")
        )
    yield from seccomp(f"{path}.seccompProfile", found.get("seccompProfile"))
    yield from _windows_options(f"{path}.windowsOptions", found.get("windowsOptions"))
    yield from app_armor(f"{path}.appArmorProfile", found.get("appArmorProfile"))
    if "supplementalGroupsPolicy" in found:
        yield from one_of(
            f"{path}.supplementalGroupsPolicy", found["supplementalGroupsPolicy"], ("Merge", "Strict")
        )
    if "seLinuxChangePolicy" in found:
        yield from one_of(f"{path}.seLinuxChangePolicy", found["seLinuxChangePolicy"], _SELINUX_CHANGES)


def _sysctls(path: str, found: Object, spec: Object) -> Findings:
    seen: set[str] = set()
    for each, here in indexed(found, "sysctls", path):
        name = text(each, "name")
        if not name:
            yield errors.required(f"{here}.name")
        elif names.size(name) > 253 or not _IS_SYSCTL.fullmatch(name):
            yield errors.wrong(
                f"{here}.name", name, f"must have at most 253 characters and match regex ^{_SYSCTL}$"
            )
        elif name in seen:
            yield errors.duplicate(f"{here}.name", name)
        seen.add(name)
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            yield errors.wrong(f"{here}.name", name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and dotted.startswith(
            ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
        ):
            yield errors.wrong(f"{here}.name", name, "may not be specified when 'hostIPC' is true")


def _windows_options(path: str, found: Object | None) -> Findings:
    if found is None:
        return
    name, credential = found.get("gmsaCredentialSpecName"), found.get("gmsaCredentialSpec")
    if name is not None:
        yield from say(f"{path}.gmsaCredentialSpecName", name, names.dns_subdomain(name))
    if credential is not None:
        here = f"{path}.gmsaCredentialSpec"
        if not credential:
            yield errors.wrong(here, credential, "gmsaCredentialSpec cannot be an empty string")
        elif names.size(credential) > 64 * 1024:
            yield errors.wrong(here, credential, "gmsaCredentialSpec size must be under 64 KiB")
    if "runAsUserName" in found:
        yield from say(f"{path}.runAsUserName", found["runAsUserName"], _windows_user(found["runAsUserName"]))


def _windows_user(name: str) -> list[str]:
    if not name:
        return ["runAsUserName cannot be an empty string"]
    if _CONTROL.search(name):
        return ["runAsUserName cannot contain control characters"]
    parts = name.split("\\")
    if len(parts) > 2:
        return ["runAsUserName cannot contain more than one backslash"]
    domain, user = parts if len(parts) == 2 else (None, parts[0])
    found = []
    if domain is not None and len(domain) >= 256:
        found.append("runAsUserName's Domain length must be under 256 characters")
    if domain is not None and not (_NET_BIOS.fullmatch(domain) or _DNS.fullmatch(domain)):
        found.append("runAsUserName's Domain doesn't match the NetBios nor the DNS format")
    if not user:
        found.append("runAsUserName's User cannot be empty")
    elif names.size(user) > 104:
        found.append("runAsUserName's User length must not be longer than 104 characters")
    if user and not user.strip(". "):
        found.append("runAsUserName's User cannot contain only periods or spaces")
    if _NOT_IN_USERS.search(user):
        found.append("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return found


def operating_system(path: str, spec: Object) -> Findings:
    """Check that a Pod has no fields that its operating system does not support."""
    name = text(part(spec, "os"), "name")
    if not name:
        yield errors.required(f"{path}.os.name")
    elif name == "windows":
        yield from _windows(path, spec)
    elif name == "linux":
        yield from _linux(path, spec)
    else:
        yield errors.not_supported(f"{path}.os", name, ("linux", "windows"))


def _linux(path: str, spec: Object) -> Findings:
    message = "windows options cannot be set for a linux pod"
    if "windowsOptions" in part(spec, "securityContext"):
        yield errors.not_allowed(f"{path}.securityContext.windowsOptions", message)
    for key, index, each in containers(spec, ephemeral=True):
        if "windowsOptions" in part(each, "securityContext"):
            yield errors.not_allowed(f"{path}.{key}[{index}].securityContext.windowsOptions", message)


def _windows(path: str, spec: Object) -> Findings:
    message = "cannot be set for a windows pod"
    for where, key in _LINUX_POD_FIELDS:
        holder = part(spec, where) if where else spec
        if holder.get(key) is not None:
            yield errors.not_allowed(f"{path}.{where}.{key}" if where else f"{path}.{key}", message)
    for which, index, each in containers(spec, ephemeral=True):
        for key in _LINUX_CONTAINER_FIELDS:
            if part(each, "securityContext").get(key) is not None:
                yield errors.not_allowed(f"{path}.{which}[{index}].securityContext.{key}", message)


def host_process(path: str, spec: Object) -> Findings:
    """Check that all or none of a Windows Pod's containers are host process containers."""
    whole = part(spec, "securityContext", "windowsOptions").get("hostProcess")
    total = hosted = 0
    for key, index, each in containers(spec, ephemeral=True):
        total += 1
        own = part(each, "securityContext", "windowsOptions").get("hostProcess")
        if whole is not None and own is not None and own != whole:
            yield errors.wrong(
                f"{path}.{key}[{index}].securityContext.windowsOptions.hostProcess",
                own,
                f"pod hostProcess value must be identical if both are specified, was {str(whole).lower()}",
            )
        hosted += bool(own if own is not None else whole)
    if hosted and hosted != total:
        yield errors.wrong(
            path,
            "",
            "If pod contains any hostProcess containers then all containers must be HostProcess containers",
        )
    if hosted and not spec.get("hostNetwork"):
        yield errors.wrong(
            f"{path}.hostNetwork",
            False,
            "hostNetwork must be true if pod contains any hostProcess containers",
        )


def host_users(path: str, spec: Object) -> Findings:
    """Check that a Pod in a user namespace shares no other namespaces with its node."""
    if spec.get("hostUsers") is not False:
        return
    message = "when `hostUsers` is false"
    for key, place in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(key):
            yield errors.not_allowed(f"{path}.{place}", message)
    for which, index, each in containers(spec, ephemeral=True):
        if items(each, "volumeDevices"):
            yield errors.not_allowed(f"{path}.{which}[{index}].volumeDevices", message)
