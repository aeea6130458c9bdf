"""Validation of containers' environment variables. Pure.

Source: `ValidateEnv`, `ValidateEnvFrom` and below in Kubernetes' `pkg/apis/core/validation`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.paths import no_backsteps
from vcsync.apimachinery.kinds.core.pod_projections import (
    ENVIRONMENT_FIELDS,
    field_reference,
    resource_reference,
)
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, indexed, say, text

_ONE_SOURCE = "may not have more than one field specified at a time"


def environment(path: str, found: Object) -> Findings:
    """Check a container's `env`."""
    for each, here in indexed(found, "env", path):
        name = text(each, "name")
        if not name:
            yield errors.required(f"{here}.name")
        else:
            yield from say(f"{here}.name", name, names.environment_name(name))
        if isinstance(each.get("valueFrom"), dict):
            yield from _value_from(f"{here}.valueFrom", each["valueFrom"], bool(text(each, "value")))


def _value_from(path: str, found: Object, has_value: bool) -> Findings:
    given = [key for key in _SOURCES if isinstance(found.get(key), dict)]
    for key in given:
        yield from _SOURCES[key](f"{path}.{key}", found[key])
    if not given:
        message = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield errors.wrong(path, "", f"must specify one of: {message}")
    elif has_value:
        yield errors.wrong(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield errors.wrong(path, "", _ONE_SOURCE)


def _key_reference(path: str, found: Object) -> Findings:
    yield from say(f"{path}.name", text(found, "name"), names.dns_subdomain(text(found, "name")))
    key = text(found, "key")
    if not key:
        yield errors.required(f"{path}.key")
    else:
        yield from say(f"{path}.key", key, names.config_key(key))


def _file_reference(path: str, found: Object) -> Findings:
    for key, check in (("key", names.environment_name), ("volumeName", names.dns_label)):
        value = text(found, key)
        if not value:
            yield errors.required(f"{path}.{key}")
        else:
            yield from say(f"{path}.{key}", value, check(value))
    if not text(found, "path"):
        yield errors.required(f"{path}.path")
    else:
        yield from no_backsteps(f"{path}.path", text(found, "path"))


_SOURCES = {
    "fieldRef": lambda path, found: field_reference(path, found, ENVIRONMENT_FIELDS),
    "resourceFieldRef": lambda path, found: resource_reference(path, found, volume=False),
    "configMapKeyRef": _key_reference,
    "secretKeyRef": _key_reference,
    "fileKeyRef": _file_reference,
}


def environment_from(path: str, found: Object) -> Findings:
    """Check a container's `envFrom`."""
    for each, here in indexed(found, "envFrom", path):
        prefix = text(each, "prefix")
        if prefix:
            yield from say(f"{here}.prefix", prefix, names.environment_name(prefix))
        given = [key for key in ("configMapRef", "secretRef") if isinstance(each.get(key), dict)]
        for key in given:
            name = text(each[key], "name")
            if not name:
                yield errors.required(f"{here}.{key}.name")
            else:
                yield from say(f"{here}.{key}.name", name, names.subdomain_name(name, True))
        if not given:
            yield errors.wrong(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield errors.wrong(path, "", _ONE_SOURCE)
