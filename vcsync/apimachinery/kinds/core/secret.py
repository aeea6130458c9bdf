"""The kind Secret: defaults, validation by type, immutability and columns. Pure.

Source: Kubernetes' `pkg/apis/core/validation`, `pkg/registry/core/secret` and `pkg/printers/internalversion`.
"""

import base64

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.gotext import json_type
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core import tls_pairs
from vcsync.apimachinery.kinds.core.immutable_data import MOST_DATA, decoded, frozen
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, immutable, part, say, text
from vcsync.apimachinery.wire import cells, gojson

_REDACTED = "<secret contents redacted>"


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
        parsed = gojson.loads(decoded(data[key]))
    except gojson.NotJSON as why:
        yield errors.wrong(here, _REDACTED, str(why))
        return
    if not isinstance(parsed, dict | None):
        message = f"cannot unmarshal {json_type(parsed)} into Go value of type map[string]interface {{}}"
        yield errors.wrong(here, _REDACTED, f"json: {message}")


_TLS = "kubernetes.io/tls"
_SECRET_NEEDS = {_TLS: ("tls.crt", "tls.key")}
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
    if sum(len(decoded(value)) for value in data.values()) > MOST_DATA:
        yield errors.too_long("data", MOST_DATA)
    yield from _secret_type(kind, data, part(found, "metadata", "annotations"))
    for key in _SECRET_NEEDS.get(kind, ()):
        if key not in data:
            yield errors.required(f"data[{key}]")


def _secret_update(new: Object, old: Object) -> list[FieldError]:
    return [
        *immutable("type", text(new, "type"), text(old, "type")),
        *frozen(new, old, ("data",)),
        *_secret_findings(new),
    ]


def _secret_warnings(new: Object, _: Object | None) -> list[str]:
    """Return why a Secret of type `kubernetes.io/tls` makes no TLS server (`warningsForSecret`)."""
    if text(new, "type") != _TLS:
        return []
    data = part(new, "data")
    found = tls_pairs.complaint(decoded(data.get("tls.crt") or ""), decoded(data.get("tls.key") or ""))
    return [found] if found else []


def _secret_prepare_update(new: Object, old: Object, _: Context) -> None:
    if not text(new, "type") and "type" in old:
        new["type"] = old["type"]


KIND = Kind(
    group="",
    kind="Secret",
    plural="secrets",
    default=_secret_default,
    prepare_update=_secret_prepare_update,
    validate=lambda found: list(_secret_findings(found)),
    warnings=_secret_warnings,
    validate_update=_secret_update,
    fields=lambda found: {"type": text(found, "type")},
    columns={"Name": cells.name, "Type": cells.field("type"), "Data": cells.count("data"), "Age": cells.age},
    repeats_finalizer_findings=True,
)
