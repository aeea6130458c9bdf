"""Secrets: their content is copied down, except for records of Helm. Types with controllers there become Opaque."""

from __future__ import annotations

from typing import Any, Final

from vcsync.api import names
from vcsync.kube.resources import SECRETS
from vcsync.objects.envelope import Envelope, untyped
from vcsync.syncer.kinds import metadata
from vcsync.syncer.kinds.data import plan_content
from vcsync.syncer.kinds.plan import EMPTY, Delete, Kind, Parts, Plan, TenantContext, View

OPAQUE: Final = "Opaque"
HARMLESS_TYPES: Final = frozenset(
    {
        "kubernetes.io/tls",
        "kubernetes.io/dockerconfigjson",
        "kubernetes.io/dockercfg",
        "kubernetes.io/basic-auth",
        "kubernetes.io/ssh-auth",
    }
)
"""Built-in types that only require a form of the data, which the tenant's API server has checked already.

Every other built-in type becomes Opaque. Otherwise the super cluster would put tokens of *its* ServiceAccount into a
ServiceAccount token Secret or delete the Secret, and a bootstrap token would let machines join.
"""
RELEASE_TYPE: Final = "helm.sh/release.v1"
"""Type of the Secrets in which Helm keeps each revision of a release, up to 1 MiB each, with all objects and values.

They stay in the tenant, because only Helm reads them. In a super cluster they would use up the bytes of the namespace's slices.
"""
_RELEASE_BYTES: Final = RELEASE_TYPE.encode()
_RESERVED_DOMAINS: Final = ("kubernetes.io", "k8s.io")


def super_name(name: str) -> str | None:
    """Return a Secret's name in the super cluster; None for names of token Secrets, which are reserved."""
    return None if name.startswith(names.TOKEN_SECRET_PREFIX) else name


def super_type(secret_type: str) -> str:
    """Return the type of the super Secret for a tenant Secret of this type."""
    if secret_type in HARMLESS_TYPES:
        return secret_type
    domain = secret_type.partition("/")[0]
    if any(domain == reserved or domain.endswith("." + reserved) for reserved in _RESERVED_DOMAINS):
        return OPAQUE
    return secret_type or OPAQUE


def plan(v: Envelope | None, p: Envelope | None, context: TenantContext, view: View) -> Plan:
    """Keep the super Secret's data equal to the tenant's. A record of Helm has no super Secret."""
    if v is None:
        if p is None or super_name(p.name) is None:
            return EMPTY
        return metadata.orphan(SECRETS, p, p.name, context, view)
    if super_name(v.name) is None:
        return metadata.reserved_name(SECRETS, v.name)
    if _is_release(v):
        return _remove(v, p, context)
    content: dict[str, Any] | None = None
    if p is None or v.rest != p.rest:
        content = untyped(v.rest) if v.rest else {}
        content["type"] = super_type(content.get("type", OPAQUE))
    return plan_content(SECRETS, v, p, context, view, content=content, fixed=frozenset({"type"}))


def _is_release(v: Envelope) -> bool:
    # Most Secrets do not contain the text and need not be decoded.
    return _RELEASE_BYTES in v.rest and untyped(v.rest).get("type") == RELEASE_TYPE


def _remove(v: Envelope, p: Envelope | None, context: TenantContext) -> Plan:
    """Delete a copy that an earlier version of vcsync made."""
    if p is None or p.deleting or metadata.identify(v, p, context) is metadata.Identity.FOREIGN:
        return EMPTY
    return Plan((Delete("super", SECRETS, p.namespace, p.name, p.uid),))


SECRET = Kind(
    name="secrets",
    resource=SECRETS,
    digested=True,
    plan=plan,
    super_name=super_name,
    tenant_name=super_name,
    tenant_parts=Parts(spec=False, status=False),
    super_parts=Parts(spec=False, status=False),
)
"""Secrets other than those with the tokens of Pods (see `token.py`)."""
