"""`/api/v1/tenants` in the operator's space: the Tenants of vcsync's own group in the form of Arktos' core group. Pure.

Such a request is one for the own group from its authentication on, so that permissions, policies, keys and resource versions are
the same. Only the `apiVersion` of bodies and answers differs.
"""

from copy import copy
from dataclasses import replace
from typing import Final, TypeVar

import msgspec

from vcsync.api.names import API_VERSION
from vcsync.api.resources import TENANTS
from vcsync.apimachinery.wire import gojson, goyaml
from vcsync.apiserver.request.caller import SYSTEM
from vcsync.apiserver.request.request_info import RequestInfo
from vcsync.apiserver.request.resource import Kind

CORE_VERSION: Final = "v1"
WITH_BODY: Final = frozenset({"create", "update", "patch"})
"""Verbs whose bodies are Tenants, or parts of one."""
_K = TypeVar("_K", bound=Kind)


def in_own_group(info: RequestInfo) -> RequestInfo:
    """Return a system caller's request for Tenants of the core group as one for the own group, and others unchanged."""
    named = (info.prefix, info.version, info.resource) == ("api", CORE_VERSION, TENANTS.plural)
    if not named or info.tenant not in (None, SYSTEM):
        return info
    return replace(info, prefix="apis", group=TENANTS.group, version=TENANTS.version, core_tenants=True)


def in_core_group(kind: _K) -> _K:
    """Return the kind of Tenants with the core group, as answers have it. Its keys and its rules stay."""
    shown = copy(kind)
    shown.resource = replace(kind.resource, group="", version=CORE_VERSION)  # type: ignore[misc]
    return shown


def own_body(body: bytes, content_type: str) -> bytes:
    """Return a Tenant of the core group as one of the own group. A body that is something else stays, and is refused later."""
    try:
        value = goyaml.loads(body).value if "yaml" in content_type.lower() else gojson.loads(body)
    except (gojson.NotJSON, goyaml.NotYAML):
        return body
    if not isinstance(value, dict) or value.get("apiVersion") != CORE_VERSION:
        return body
    return msgspec.json.encode({**value, "apiVersion": API_VERSION})
