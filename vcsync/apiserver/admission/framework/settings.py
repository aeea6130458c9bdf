"""The configuration of admission plug-ins: an AdmissionConfiguration file. Pure.

Formats: `apiserver.config.k8s.io/v1` AdmissionConfiguration and ResourceQuotaConfiguration,
`pod-security.admission.config.k8s.io/v1` PodSecurityConfiguration.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from vcsync.apimachinery.validation import names
from vcsync.apiserver.admission.pod_standards.standards import LEVELS, PRIVILEGED, Policy, Standard, minor_of

MAX_FILE = 2**20
API_VERSION, KIND = "apiserver.config.k8s.io/v1", "AdmissionConfiguration"


class SettingsError(Exception):
    """The file is invalid. The message names the field and the problem."""


@dataclass(frozen=True)
class Exemptions:
    """Exemptions from PodSecurity."""

    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Limited:
    """A resource whose use must be covered by a quota.

    Attributes:
        contains: Usage whose name contains one of these texts must be covered.
        scopes: Objects that match one of these scopes must be covered by a quota of that scope.
    """

    group: str
    plural: str
    contains: tuple[str, ...] = ()
    scopes: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Settings:
    """The configuration of all plug-ins. The default is that of a kube-apiserver without a file.

    Attributes:
        standard: Pod security standards of namespaces without labels.
        exemptions: Exemptions from Pod security.
        limited: Resources that must be covered by a quota.
    """

    standard: Policy = PRIVILEGED
    exemptions: Exemptions = Exemptions()
    limited: tuple[Limited, ...] = ()


class _Plugin(msgspec.Struct):
    name: str
    configuration: dict[str, Any] | None = None
    path: str = ""


class _Configuration(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    plugins: list[_Plugin] | None = None


class _Defaults(msgspec.Struct, rename="kebab"):
    enforce: str = "privileged"
    enforce_version: str = "latest"
    audit: str = "privileged"
    audit_version: str = "latest"
    warn: str = "privileged"
    warn_version: str = "latest"


class _Exemptions(msgspec.Struct, rename="camel"):
    usernames: list[str] | None = None
    namespaces: list[str] | None = None
    runtime_classes: list[str] | None = None


class _PodSecurity(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    defaults: _Defaults = msgspec.field(default_factory=_Defaults)
    exemptions: _Exemptions = msgspec.field(default_factory=_Exemptions)


class _Requirement(msgspec.Struct, rename="camel"):
    scope_name: str
    operator: str
    values: list[str] | None = None


class _Limited(msgspec.Struct, rename="camel"):
    api_group: str = ""
    resource: str = ""
    match_contains: list[str] | None = None
    match_scopes: list[_Requirement] | None = None


class _Quota(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    limited_resources: list[_Limited] | None = None


_PARTS: Mapping[tuple[type, str], type] = {
    (_Configuration, "plugins"): _Plugin,
    (_PodSecurity, "defaults"): _Defaults,
    (_PodSecurity, "exemptions"): _Exemptions,
    (_Quota, "limitedResources"): _Limited,
    (_Limited, "matchScopes"): _Requirement,
}


def read(text: bytes, load: Callable[[str], bytes]) -> Settings:
    """Parse an AdmissionConfiguration.

    Args:
        text: Content of the file.
        load: Reads the file that the `path` of a plug-in names.

    Raises:
        SettingsError: The file is invalid.
        OSError: A file that it names cannot be read.
    """
    configuration: _Configuration = _read(_Configuration, _yaml(text), "")
    if (configuration.api_version, configuration.kind) != (API_VERSION, KIND):
        raise SettingsError(f"apiVersion and kind must be {API_VERSION} and {KIND}")
    found = Settings()
    for at, plugin in enumerate(configuration.plugins or ()):
        where = f"plugins[{at}]"
        configure = _PLUGINS.get(plugin.name)
        if configure is None:
            known = ", ".join(_PLUGINS)
            raise SettingsError(f"{where}.name: {plugin.name!r} has no configuration; known are {known}")
        if (plugin.configuration is None) == (not plugin.path):
            raise SettingsError(f"{where}: give either configuration or path")
        value = _yaml(load(plugin.path)) if plugin.path else plugin.configuration
        found = configure(found, value or {}, f"{where}.configuration")
    return found


def _yaml(text: bytes) -> dict[str, Any]:
    if len(text) > MAX_FILE:
        raise SettingsError(f"the file is longer than {MAX_FILE} bytes")
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(f"not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(value, dict):
        raise SettingsError("must be an object with apiVersion and kind")
    return value


def _read(of: Any, value: Mapping[str, Any], path: str) -> Any:
    _check_fields(of, value, f"{path}." if path else "")
    try:
        return msgspec.convert(value, of)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{path}: {error}" if path else str(error)) from None


def _check_fields(of: type, value: Mapping[Any, Any], path: str) -> None:
    """Refuse unknown fields, and suggest a known one."""
    known = [each.encode_name for each in msgspec.structs.fields(of)]
    for key, each in value.items():
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise SettingsError(f"{path}{key}: unknown field; {hint}")
        part = _PARTS.get((of, key))
        if part is None:
            continue
        for at, item in enumerate(each if isinstance(each, list) else [each]):
            if isinstance(item, dict):
                _check_fields(
                    part, item, f"{path}{key}[{at}]." if isinstance(each, list) else f"{path}{key}."
                )


def _pod_security(settings: Settings, value: Mapping[str, Any], path: str) -> Settings:
    found: _PodSecurity = _read(_PodSecurity, value, path)
    _check_kind(found, ("pod-security.admission.config.k8s.io/v1", "PodSecurityConfiguration"), path)
    defaults, exempt = found.defaults, found.exemptions
    for name in exempt.namespaces or ():
        if names.dns_label(name):
            raise SettingsError(f"{path}.exemptions.namespaces: {name!r} is not a valid name of a namespace")
    for name in exempt.runtime_classes or ():
        if names.dns_subdomain(name):
            raise SettingsError(
                f"{path}.exemptions.runtimeClasses: {name!r} is not a valid name of a RuntimeClass"
            )
    if "" in (exempt.usernames or ()):
        raise SettingsError(f"{path}.exemptions.usernames: must not be empty")
    standard = Policy(
        _standard(defaults.enforce, defaults.enforce_version, f"{path}.defaults.enforce"),
        _standard(defaults.audit, defaults.audit_version, f"{path}.defaults.audit"),
        _standard(defaults.warn, defaults.warn_version, f"{path}.defaults.warn"),
    )
    exemptions = Exemptions(
        frozenset(exempt.usernames or ()),
        frozenset(exempt.namespaces or ()),
        frozenset(exempt.runtime_classes or ()),
    )
    return Settings(standard, exemptions, settings.limited)


def _standard(level: str, version: str, path: str) -> Standard:
    minor = minor_of(version)
    if level not in LEVELS:
        raise SettingsError(f"{path}: {level!r} must be one of {', '.join(LEVELS)}")
    if minor is None:
        raise SettingsError(f'{path}-version: {version!r} must be "latest" or "v1.x"')
    return Standard(level, minor)


def _quota(settings: Settings, value: Mapping[str, Any], path: str) -> Settings:
    found: _Quota = _read(_Quota, value, path)
    _check_kind(found, (API_VERSION, "ResourceQuotaConfiguration"), path)
    limited = []
    for at, each in enumerate(found.limited_resources or ()):
        if not each.resource:
            raise SettingsError(f"{path}.limitedResources[{at}].resource: is required")
        scopes = tuple(msgspec.to_builtins(scope) for scope in each.match_scopes or ())
        limited.append(Limited(each.api_group, each.resource, tuple(each.match_contains or ()), scopes))
    return Settings(settings.standard, settings.exemptions, tuple(limited))


def _check_kind(found: Any, wanted: tuple[str, str], path: str) -> None:
    if (found.api_version, found.kind) != wanted:
        raise SettingsError(f"{path}: apiVersion and kind must be {' and '.join(wanted)}")


_PLUGINS: Mapping[str, Callable[[Settings, Mapping[str, Any], str], Settings]] = {
    "PodSecurity": _pod_security,
    "ResourceQuota": _quota,
}
