"""Moves parameters that operations of an OpenAPI 2 document share into one place. Pure.

Behaviour: kube-openapi's `pkg/builder/parameters.go`, including the names of shared parameters.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any

from vcsync.objects.text_cache import cache_short_texts

Document = dict[str, Any]

_GENERAL = "#/definitions/io.k8s.apimachinery"
"""Prefix of the definitions of bodies that are not specific to one kind."""
_PRIME, _OFFSET, _MASK = 0x100000001B3, 0xCBF29CE484222325, 2**64 - 1
"""Constants of the 64-bit FNV-1 hash."""


def share(paths: Document) -> tuple[Document, Document]:
    """Return the paths with references to shared parameters, and the shared parameters by name."""
    shared: Document = {}
    return {path: _shared(entry, shared) for path, entry in paths.items()}, dict(sorted(shared.items()))


def _shared(entry: Document, shared: Document) -> Document:
    """Return a path or an operation with references. Adds its general parameters to `shared`."""
    return {key: _member(key, value, shared) for key, value in entry.items()}


def _member(key: str, value: Any, shared: Document) -> Any:
    if key == "parameters":
        return [_reference(each, shared) if _is_general(each) else each for each in value]
    return _shared(value, shared) if isinstance(value, dict) and "responses" in value else value


def _is_general(parameter: Mapping[str, Any]) -> bool:
    """Return whether a parameter is shared: it depends on no kind, and old clients do not search operations for it."""
    if parameter["in"] == "body":
        return str(parameter["schema"].get("$ref", "")).startswith(_GENERAL)
    return parameter["name"] not in ("name", "fieldValidation", "dryRun")


def _reference(parameter: Document, shared: Document) -> Document:
    text = json.dumps(parameter, ensure_ascii=False, separators=(",", ":"))
    name = f"{parameter['name']}-{_hash(text)}"
    shared[name] = parameter
    return {"$ref": f"#/parameters/{name}"}


@cache_short_texts(256, 4096)
def _hash(text: str) -> str:
    """Return the first six bytes of the FNV-1 hash of a parameter as Go writes it in JSON, in base64."""
    value = _OFFSET
    for byte in text.encode():
        value = (value * _PRIME & _MASK) ^ byte
    return base64.urlsafe_b64encode(value.to_bytes(8, "big")[:6]).decode()
