"""ServiceAccounts: names and image pull secrets are copied down. Tokens never come from the super cluster."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from vcsync.kube.resources import SERVICE_ACCOUNTS
from vcsync.objects.envelope import Envelope, decode
from vcsync.syncer.kinds import metadata
from vcsync.syncer.kinds.plan import EMPTY, Create, Kind, Parts, Plan, TenantContext, View

DEFAULT = "default"
"""The ServiceAccount that the super cluster creates in every namespace. It is adopted."""


class _Account(Struct, gc=False):
    imagePullSecrets: list[dict[str, Any]] = []  # noqa: N815 - wire name
    automountServiceAccountToken: bool | None = None  # noqa: N815


def plan(v: Envelope | None, p: Envelope | None, context: TenantContext, view: View) -> Plan:
    """Keep the super ServiceAccount: no secrets, no automounted tokens, the tenant's imagePullSecrets."""
    if v is None:
        return EMPTY if p is None else metadata.orphan(SERVICE_ACCOUNTS, p, p.name, context, view)
    wanted = _decode(v).imagePullSecrets
    if p is None:
        if v.deleting:
            return EMPTY
        if (wait := metadata.super_namespace_wait(v, context, view)) is not None:
            return Plan(wait=wait)
        return Plan((_create(v, wanted, context),))
    adopt = view if v.name == DEFAULT else None
    if (unsettled := metadata.settle_identity(SERVICE_ACCOUNTS, v, p, context, adopt=adopt)) is not None:
        return unsettled
    changes = metadata.metadata_patch(SERVICE_ACCOUNTS, v, p, context)
    actual = _decode(p)
    fields: dict[str, Any] = {}
    if actual.imagePullSecrets != wanted:
        fields["imagePullSecrets"] = wanted or None
    if actual.automountServiceAccountToken is not False:
        fields["automountServiceAccountToken"] = False
    return Plan(metadata.super_patch(SERVICE_ACCOUNTS, p, changes, fields))


def _decode(envelope: Envelope) -> _Account:
    return decode(envelope.rest, _Account) if envelope.rest else _Account()


def _create(v: Envelope, pull_secrets: list[dict[str, Any]], context: TenantContext) -> Create:
    body: dict[str, Any] = {
        "apiVersion": SERVICE_ACCOUNTS.api_version,
        "kind": SERVICE_ACCOUNTS.kind,
        "metadata": metadata.super_metadata(SERVICE_ACCOUNTS, v, context),
        "automountServiceAccountToken": False,
    }
    if pull_secrets:
        body["imagePullSecrets"] = pull_secrets
    return Create("super", SERVICE_ACCOUNTS, body["metadata"]["namespace"], body)


SERVICE_ACCOUNT = Kind(
    name="serviceaccounts",
    resource=SERVICE_ACCOUNTS,
    plan=plan,
    tenant_parts=Parts(spec=False, status=False),
    super_parts=Parts(spec=False, status=False),
)
"""ServiceAccounts."""
