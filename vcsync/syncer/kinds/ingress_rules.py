"""Hosts, backends and certificates of an Ingress, and the rules of the operator for them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from vcsync.api.specs import IngressPolicy
from vcsync.objects.envelope import decode
from vcsync.patterns.linear import linear

MAX_HOSTS: Final = 256
"""Largest number of different hosts of one Ingress."""
ANY_HOST: Final = ""
"""The host of a rule, a backend or a certificate that applies to all requests that no other rule matches."""
WILDCARD: Final = "*."

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_HOST = linear(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")
_MAX_HOST_LENGTH = 253
_SPACES = "\x00-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_CONFIGURATION = linear(rf"""[{_SPACES}\x7f;{{}}"'`\\]""")
"""Characters that end a path in configuration files of ingress controllers (CVE-2021-25745, CVE-2021-25748)."""


class _ServiceBackend(Struct, gc=False):
    name: str = ""


class _Backend(Struct):
    service: _ServiceBackend | None = None
    resource: dict[str, Any] | None = None


class _Path(Struct):
    path: str | None = None
    backend: _Backend | None = None


class _Http(Struct):
    paths: list[_Path] | None = None


class _Rule(Struct):
    host: str | None = None
    http: _Http | None = None


class _Tls(Struct, rename="camel"):
    hosts: list[str] | None = None
    secret_name: str | None = None


class IngressSpec(Struct, rename="camel"):
    """The parts of an Ingress's spec that decide whose requests it gets, and where they go."""

    ingress_class_name: str | None = None
    default_backend: _Backend | None = None
    rules: list[_Rule] | None = None
    tls: list[_Tls] | None = None


class Claims(Struct, frozen=True):
    """The names that an Ingress takes for its tenant on a super cluster."""

    hosts: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()
    """Names of the Services that get its requests."""


def read(spec: bytes) -> IngressSpec:
    """Read the spec of an Ingress.

    Raises:
        msgspec.ValidationError: it is not the spec of an Ingress.
    """
    return decode(spec, IngressSpec)


def claims(spec: IngressSpec) -> Claims:
    """Return what an Ingress of this spec takes."""
    services = (backend.service.name for _, backend in backends(spec) if backend.service is not None)
    return Claims(frozenset(host for _, host in hosts(spec)), frozenset(services))


def claims_of_body(body: dict[str, Any]) -> Claims:
    """Return what an Ingress takes that is created with this body, or changed by it as a merge patch."""
    return claims(msgspec.convert(body.get("spec") or {}, IngressSpec))


def hosts(spec: IngressSpec) -> Iterator[tuple[str, str]]:
    """Yield the hosts of an Ingress, each with the path of its field."""
    if spec.default_backend is not None:
        yield "spec.defaultBackend", ANY_HOST
    for index, rule in enumerate(spec.rules or ()):
        yield f"spec.rules[{index}].host", rule.host or ANY_HOST
    for index, tls in enumerate(spec.tls or ()):
        if not tls.hosts:
            yield f"spec.tls[{index}].hosts", ANY_HOST
        for number, host in enumerate(tls.hosts or ()):
            yield f"spec.tls[{index}].hosts[{number}]", host or ANY_HOST


def backends(spec: IngressSpec) -> Iterator[tuple[str, _Backend]]:
    """Yield the backends of an Ingress, each with the path of its field."""
    if spec.default_backend is not None:
        yield "spec.defaultBackend", spec.default_backend
    for index, rule in enumerate(spec.rules or ()):
        for number, path in enumerate((rule.http.paths if rule.http is not None else None) or ()):
            if path.backend is not None:
                yield f"spec.rules[{index}].http.paths[{number}].backend", path.backend


def secrets(spec: IngressSpec) -> list[str]:
    """Return the names of the Secrets with the certificates of an Ingress, in order."""
    return list(dict.fromkeys(tls.secret_name for tls in spec.tls or () if tls.secret_name))


def refusal(spec: IngressSpec, policy: IngressPolicy, tenant: str) -> str | None:
    """Return why the hosts or backends of an Ingress are not allowed, and the remedy; None if they are.

    Args:
        spec: the tenant's Ingress.
        policy: the operator's policy.
        tenant: the name of the tenant, which patterns of the policy may contain.
    """
    allowed = tuple(pattern.replace("{tenant}", tenant) for pattern in policy.hosts)
    for path, host in hosts(spec):
        if host == ANY_HOST and policy.catch_all != "Allow":
            return _catches_all(path)
        if host != ANY_HOST and (reason := _host_refusal(host, allowed)) is not None:
            return f"{path} {host[:_MAX_HOST_LENGTH]} {reason}"
    different = len(claims(spec).hosts)
    if different > MAX_HOSTS:
        return f"spec has {different} different hosts, and at most {MAX_HOSTS} are possible: use several Ingresses"
    for path, backend in backends(spec):
        if backend.resource is not None:
            return f"{path}.resource is not supported: such objects are not synced; use {path}.service"
    return _path_refusal(spec)


def _path_refusal(spec: IngressSpec) -> str | None:
    for index, rule in enumerate(spec.rules or ()):
        for number, path in enumerate((rule.http.paths if rule.http is not None else None) or ()):
            if path.path and (bad := _CONFIGURATION.search(path.path)) is not None:
                return (
                    f"spec.rules[{index}].http.paths[{number}].path contains {bad[0]!r}, which ingress controllers may take "
                    "for configuration: leave it out"
                )
    return None


def _host_refusal(host: str, allowed: tuple[str, ...]) -> str | None:
    if len(host) > _MAX_HOST_LENGTH or _HOST.fullmatch(host) is None:
        return "is not a host: use lower case letters, digits, '-' and '.'"
    if not allowed:
        wide = host.startswith(WILDCARD) and host.count(".") == 1
        return "covers a whole top-level domain: use a longer name, or ask the operator" if wide else None
    if any(_matches(host, pattern) for pattern in allowed):
        return None
    return f"is not allowed here: use {', '.join(allowed)}, or ask the operator"


def covering(host: str) -> Iterator[str]:
    """Yield the names under which an Ingress may have a host: the host itself, and all wildcards that cover it."""
    yield host
    name = host.removeprefix(WILDCARD)
    while "." in name:
        name = name.partition(".")[2]
        yield WILDCARD + name


def overlap(one: str, other: str) -> bool:
    """Return whether a request can be for both hosts. A wildcard covers names of any depth, as in many controllers."""
    return one in covering(other) or other in covering(one)


def _matches(host: str, pattern: str) -> bool:
    """Return whether a host is a name that a pattern of the policy allows."""
    if pattern.startswith(WILDCARD):
        return host == pattern or host.removeprefix(WILDCARD).endswith(pattern.removeprefix("*"))
    return host == pattern


def _catches_all(path: str) -> str:
    why = "it would apply to requests for hosts of others"
    if path == "spec.defaultBackend":
        return f"{path} is not allowed here: {why}; use rules with a host, or ask the operator"
    return f"{path} names no host, which is not allowed here: {why}; name one, or ask the operator"
