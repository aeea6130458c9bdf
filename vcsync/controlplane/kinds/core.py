"""ConfigMaps, Secrets, Namespaces, ServiceAccounts, Endpoints. Pure.

Source: Kubernetes' `pkg/apis/core/validation` and `pkg/registry/core`.
"""

import base64
import binascii

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Context
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.gotext import json_type
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.addresses import address, reachable
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.pod_containers import PROTOCOLS
from vcsync.controlplane.kinds.pod_defaults import fill
from vcsync.controlplane.kinds.rules import (
    Findings,
    Object,
    choice,
    immutable,
    indexed,
    items,
    number,
    part,
    port,
    say,
    text,
)
from vcsync.controlplane.wire import gojson

MOST_DATA = 1024 * 1024
_FROZEN = "field is immutable when `immutable` is set"
_REDACTED = "<secret contents redacted>"
_NAME_LABEL = "kubernetes.io/metadata.name"


def _decoded(value: object) -> bytes:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        return b""


def _config_map(found: Object) -> list[FieldError]:
    return list(_config_map_findings(found))


def _config_map_findings(found: Object) -> Findings:
    data, binary = part(found, "data"), part(found, "binaryData")
    size = 0
    for key, value in data.items():
        yield from say(f"data[{key}]", key, names.config_key(key))
        if key in binary:
            yield errors.wrong(f"data[{key}]", key, "duplicate of key present in binaryData")
        size += names.size(value)
    for key, value in binary.items():
        yield from say(f"binaryData[{key}]", key, names.config_key(key))
        size += len(_decoded(value))
    if size > MOST_DATA:
        yield errors.too_long("[]", MOST_DATA)


def _frozen(new: Object, old: Object, keys: tuple[str, ...]) -> Findings:
    if old.get("immutable"):
        if not new.get("immutable"):
            yield errors.not_allowed("immutable", _FROZEN)
        for key in keys:
            if (new.get(key) or {}) != (old.get(key) or {}):
                yield errors.not_allowed(key, _FROZEN)


def _config_map_update(new: Object, old: Object) -> list[FieldError]:
    return [*_frozen(new, old, ("data", "binaryData")), *_config_map_findings(new)]


def _secret_default(found: Object) -> None:
    texts = found.pop("stringData", None)
    if isinstance(texts, dict) and texts:
        data = dict(found.get("data") or {})
        for key, value in texts.items():
            data[key] = base64.b64encode(str(value).encode()).decode()
        found["data"] = data
    fill(found, {"type": "Opaque"})


def _json_object(path: str, data: Object, key: str) -> Findings:
    here = f"{path}[{key}]"
    if key not in data:
        yield errors.required(here)
        return
    try:
        parsed = gojson.loads(_decoded(data[key]))
    except gojson.NotJSON as why:
        yield errors.wrong(here, _REDACTED, str(why))
        return
    if not isinstance(parsed, dict | None):
        told = f"cannot unmarshal {json_type(parsed)} into Go value of type map[string]interface {{}}"
        yield errors.wrong(here, _REDACTED, f"json: {told}")


_SECRET_NEEDS = {"kubernetes.io/tls": ("tls.crt", "tls.key")}
_ACCOUNT = "kubernetes.io/service-account.name"


def _secret_type(kind: str, data: Object, annotations: Object) -> Findings:
    if kind == "kubernetes.io/service-account-token" and not text(annotations, _ACCOUNT):
        yield errors.required(f"metadata.annotations[{_ACCOUNT}]")
    if kind == "kubernetes.io/dockercfg":
        yield from _json_object("data", data, ".dockercfg")
    if kind == "kubernetes.io/dockerconfigjson":
        yield from _json_object("data", data, ".dockerconfigjson")
    if kind == "kubernetes.io/basic-auth" and "username" not in data and "password" not in data:
        yield errors.required("data[username]")
        yield errors.required("data[password]")
    if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        yield errors.required("data[ssh-privatekey]")


def _secret_findings(found: Object) -> Findings:
    data, kind = part(found, "data"), text(found, "type")
    for key in data:
        yield from say(f"data[{key}]", key, names.config_key(key))
    if sum(len(_decoded(value)) for value in data.values()) > MOST_DATA:
        yield errors.too_long("data", MOST_DATA)
    yield from _secret_type(kind, data, part(found, "metadata", "annotations"))
    for key in _SECRET_NEEDS.get(kind, ()):
        if key not in data:
            yield errors.required(f"data[{key}]")


def _secret_update(new: Object, old: Object) -> list[FieldError]:
    return [
        *immutable("type", text(new, "type"), text(old, "type")),
        *_frozen(new, old, ("data",)),
        *_secret_findings(new),
    ]


def _secret_prepare_update(new: Object, old: Object, _: Context) -> None:
    if not text(new, "type") and "type" in old:
        new["type"] = old["type"]


def _namespace_default(found: Object) -> None:
    metadata = found.get("metadata")
    if isinstance(metadata, dict) and metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), _NAME_LABEL: metadata["name"]}
    status = found.setdefault("status", {})
    fill(status, {"phase": "Active"})


def _namespace_create(new: Object, _: Context) -> None:
    metadata = new["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), _NAME_LABEL: metadata["name"]}
    new["status"] = {"phase": "Active"}
    spec = new.setdefault("spec", {})
    finalizers = list(items(spec, "finalizers"))
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    spec["finalizers"] = finalizers


def _namespace_update(new: Object, old: Object, _: Context) -> None:
    new["spec"] = {**part(new, "spec")}
    new["spec"].pop("finalizers", None)
    if "finalizers" in part(old, "spec"):
        new["spec"]["finalizers"] = old["spec"]["finalizers"]


def finalizer(path: str, name: str) -> Findings:
    """A finalizer's name: standard or qualified."""
    yield from say(path, name, names.qualified_name(name))
    yield from standard_finalizer(path, name)


def standard_finalizer(path: str, name: str) -> Findings:
    """A finalizer without a domain must be one of Kubernetes' own."""
    if "/" not in name and name not in ("kubernetes", "orphan", "foregroundDeletion"):
        yield errors.wrong(path, name, "name is neither a standard finalizer name nor is it fully qualified")


def _namespace(found: Object) -> list[FieldError]:
    return [
        each
        for name in items(part(found, "spec"), "finalizers")
        for each in finalizer("spec.finalizers", name)
    ]


def validate_finalize(new: Object, _old: Object) -> list[FieldError]:
    """Findings on a write to a namespace's `.../finalize`."""
    return [
        each
        for name, here in indexed(part(new, "spec"), "finalizers", "spec.finalizers")
        for each in finalizer(here, name)
    ]


def _namespace_status(new: Object, _old: Object) -> list[FieldError]:
    phase = text(part(new, "status"), "phase")
    deleted = "deletionTimestamp" in part(new, "metadata")
    expected, told = ("Terminating", "is not empty") if deleted else ("Active", "is empty")
    if phase == expected:
        return []
    return [errors.wrong("status.Phase", phase, f"may only be '{expected}' if `deletionTimestamp` {told}")]


def _service_account_warnings(new: Object, old: Object | None) -> list[str]:
    key = "kubernetes.io/enforce-mountable-secrets"
    if key in part(new, "metadata", "annotations") and key not in part(old, "metadata", "annotations"):
        told = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        return [f"metadata.annotations[{key}]: {told}"]
    return []


def _endpoints_default(found: Object) -> None:
    for subset in items(found, "subsets"):
        for each in items(subset, "ports"):
            fill(each, {"protocol": "TCP"})


def _endpoints_findings(found: Object) -> Findings:
    for subset, here in indexed(found, "subsets", "subsets"):
        if not items(subset, "addresses") and not items(subset, "notReadyAddresses"):
            yield errors.required(here, "must specify `addresses` or `notReadyAddresses`")
        for key in ("addresses", "notReadyAddresses"):
            for each, place in indexed(subset, key, f"{here}.{key}"):
                yield from _endpoint_address(place, each)
        for each, place in indexed(subset, "ports", f"{here}.ports"):
            yield from _endpoint_port(place, each, len(items(subset, "ports")) > 1)


def _endpoint_address(path: str, found: Object) -> Findings:
    ip = text(found, "ip")
    yield from address(f"{path}.ip", ip)
    if text(found, "hostname"):
        yield from say(f"{path}.hostname", found["hostname"], names.dns_label(found["hostname"]))
    if "nodeName" in found:
        yield from say(f"{path}.nodeName", found["nodeName"], names.dns_subdomain(found["nodeName"]))
    yield from reachable(f"{path}.ip", ip)


def _endpoint_port(path: str, found: Object, named: bool) -> Findings:
    name = text(found, "name")
    if name:
        yield from say(f"{path}.name", name, names.dns_label(name))
    elif named:
        yield errors.required(f"{path}.name")
    yield from port(f"{path}.port", number(found, "port"))
    yield from choice(f"{path}.protocol", text(found, "protocol"), PROTOCOLS)
    if "appProtocol" in found:
        yield from say(
            f"{path}.appProtocol", found["appProtocol"], names.qualified_name(found["appProtocol"])
        )


def _endpoints_update(new: Object, old: Object) -> list[FieldError]:
    return [] if items(new, "subsets") == items(old, "subsets") else list(_endpoints_findings(new))


CORE = {
    ("", "ConfigMap"): Part(validate=_config_map, validate_update=_config_map_update),
    ("", "Endpoints"): Part(
        default=_endpoints_default,
        validate=lambda found: list(_endpoints_findings(found)),
        validate_update=_endpoints_update,
    ),
    ("", "Namespace"): Part(
        default=_namespace_default,
        prepare_create=_namespace_create,
        prepare_update=_namespace_update,
        validate=_namespace,
        validate_update=lambda _new, _old: [],
        fields=lambda found: {
            "status.phase": text(part(found, "status"), "phase"),
            "name": text(part(found, "metadata"), "name"),
        },
        status_validate=_namespace_status,
        name=names.label_name,
    ),
    ("", "Secret"): Part(
        default=_secret_default,
        prepare_update=_secret_prepare_update,
        validate=lambda found: list(_secret_findings(found)),
        validate_update=_secret_update,
        fields=lambda found: {"type": text(found, "type")},
    ),
    ("", "ServiceAccount"): Part(warnings=_service_account_warnings),
}
