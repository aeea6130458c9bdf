"""Approval of definitions in API groups of the Kubernetes project, by annotation. Pure.

Source: `pkg/apihelpers` of apiextensions-apiserver.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from vcsync.apimachinery.errors import FieldError, required, wrong
from vcsync.apimachinery.structural.field_names import key

Raw = Mapping[str, Any]

_APPROVAL = "api-approved.kubernetes.io"


def _approval_state(definition: Raw) -> tuple[str, str]:
    text = (definition.get("metadata", {}).get("annotations") or {}).get(_APPROVAL) or ""
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not text:
        return "missing", f'protected groups must have approval annotation "{_APPROVAL}", {see}'
    if text.startswith("unapproved"):
        return "bypassed", f"not approved: {json.dumps(text)}"
    try:
        url = urlsplit(text)
    except ValueError:
        url = urlsplit("")
    if url.scheme and url.netloc:
        return "approved", f"approved in {text}"
    either = 'with either a URL or a reason starting with "unapproved"'
    return "invalid", f'protected groups must have approval annotation "{_APPROVAL}" {either}, {see}'


def approval(definition: Raw) -> tuple[str, str] | None:
    """Return the approval condition's status and reason, or None if the group is not one of the project's."""
    group = definition["spec"].get("group") or ""
    if f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return _approval_state(definition)
    return None


def check_approval(new: Raw, old: Raw | None) -> list[FieldError]:
    """Return the findings on the approval of a definition; `old` is the stored one, or None for a create."""
    state = approval(new)
    if state is None or (old is not None and _approval_state(old)[0] == state[0]):
        return []
    where = key("metadata.annotations", _APPROVAL)
    if state[0] == "missing":
        return [required(where, state[1])]
    if state[0] == "invalid":
        return [wrong(where, new["metadata"]["annotations"][_APPROVAL], state[1])]
    return []
