"""The data of ConfigMaps and Secrets: decoding and immutability. Pure.

Source: Kubernetes' `pkg/apis/core/validation`.
"""

import base64
import binascii

from vcsync.apimachinery import errors
from vcsync.apimachinery.validation.fields import Findings, Object

MOST_DATA = 1024 * 1024
_FROZEN = "field is immutable when `immutable` is set"


def decoded(value: object) -> bytes:
    """Decode base64 text. Return nothing if it is not base64."""
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        return b""


def frozen(new: Object, old: Object, keys: tuple[str, ...]) -> Findings:
    """Yield the findings on an update of an immutable ConfigMap or Secret."""
    if old.get("immutable"):
        if not new.get("immutable"):
            yield errors.not_allowed("immutable", _FROZEN)
        for key in keys:
            if (new.get(key) or {}) != (old.get(key) or {}):
                yield errors.not_allowed(key, _FROZEN)
