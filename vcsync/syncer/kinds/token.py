"""Tokens of the tenant's ServiceAccounts in the super cluster: one Secret per Pod, renewed like a kubelet would.

A Pod's projected token would be issued by the super cluster's API server, which the tenant's does not trust (and which
should trust no tenant). So every `serviceAccountToken` source becomes a Secret source; the Secret's content is requested from the
*tenant's* API, bound to the tenant's Pod: it dies with the Pod. Pure logic; the engine requests, stores and keeps the timer.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from vcsync.api import names
from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.resources import SECRETS
from vcsync.syncer.kinds import metadata
from vcsync.syncer.kinds.plan import (
    EMPTY,
    Delete,
    Patch,
    Plan,
    RequestToken,
    TenantContext,
    TokenSource,
    View,
    Wait,
)

RENEW_AFTER_SHARE: Final = 0.8
"""Share of a token's lifetime after which the kubelet renews it (kubelet token manager)."""
RENEW_AFTER: Final = timedelta(hours=24)
"""The kubelet renews a token of this age whatever its lifetime."""
TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})

_ANNOTATION_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"


class Granted(Struct, frozen=True):
    """The tenant API's answer to one token request."""

    token: str
    expires: datetime
    """`status.expirationTimestamp`, with time zone."""

    def __repr__(self) -> str:
        """Never show the token."""
        return f"Granted(expires={self.expires.isoformat()})"


class _TokenStatus(Struct, rename="camel"):
    token: str
    expiration_timestamp: datetime


class _TokenAnswer(Struct):
    status: _TokenStatus


class _Contents(Struct, frozen=True, rename="camel"):
    service_account: str
    tokens: tuple[TokenSource, ...]


class _PodStatus(Struct):
    phase: str = ""


def secret_name(pod_uid: str) -> str:
    """Name of a Pod's token Secret."""
    return names.TOKEN_SECRET_PREFIX + pod_uid


def encode_contents(service_account: str, tokens: tuple[TokenSource, ...]) -> str:
    """Whose tokens, and which, as the text of annotation `TOKENS`."""
    return msgspec.json.encode(_Contents(service_account, tokens)).decode()


def _decode_contents(text: str) -> _Contents | None:
    """The reverse of `encode_contents`; None if somebody in the super cluster has defaced the annotation."""
    try:
        contents = msgspec.json.decode(text, type=_Contents)
    except msgspec.DecodeError:
        return None
    return contents if contents.service_account and contents.tokens else None


def request_for(
    v: Envelope, service_account: str, tokens: tuple[TokenSource, ...], context: TenantContext, view: View
) -> tuple[RequestToken, ...]:
    """The request for a Pod's tokens, or nothing if its token Secret is there."""
    namespace = names.super_namespace(context.key, v.namespace)
    name = secret_name(v.uid)
    if not tokens or view.super(SECRETS, namespace, name) is not None:
        return ()
    return (
        RequestToken(
            namespace=v.namespace,
            pod_name=v.name,
            pod_uid=v.uid,
            service_account=service_account,
            super_namespace=namespace,
            secret_name=name,
            secret_uid="",
            tokens=tokens,
        ),
    )


# --- Requesting ------------------------------------------------------------------------------------------


def token_request(action: RequestToken, source: TokenSource) -> dict[str, Any]:
    """The TokenRequest to POST to the tenant's `serviceaccounts/<service_account>/token`."""
    spec: dict[str, Any] = {
        "expirationSeconds": source.expiration_seconds,
        "boundObjectRef": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": action.pod_name,
            "uid": action.pod_uid,
        },
    }
    if source.audience:
        spec["audiences"] = [source.audience]
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


def granted(answer: bytes) -> Granted:
    """Read the tenant API's answer.

    Raises:
        msgspec.DecodeError: it is no TokenRequest with a token.
    """
    status = msgspec.json.decode(answer, type=_TokenAnswer).status
    return Granted(status.token, status.expiration_timestamp)


def secret_body(
    action: RequestToken, tokens: Mapping[str, Granted], context: TenantContext, *, issued: datetime
) -> dict[str, Any]:
    """The token Secret to create.

    Args:
        action: the request.
        tokens: key of each token source -> what was granted.
        context: the tenant.
        issued: when the tokens were requested, with time zone.
    """
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "type": "Opaque",
        "metadata": {
            "name": action.secret_name,
            "namespace": action.super_namespace,
            "labels": dict(metadata.own_labels(context)),
            "annotations": {
                names.CLUSTER: context.key,
                names.UID: action.pod_uid,
                names.NAMESPACE: action.namespace,
                names.VC_NAME: context.vc_name,
                names.VC_NAMESPACE: context.vc_namespace,
                names.POD_NAME: action.pod_name,
                names.TOKENS: encode_contents(action.service_account, action.tokens),
                **_times(tokens, issued),
            },
        },
        "data": _data(tokens),
    }


def secret_patch(action: RequestToken, tokens: Mapping[str, Granted], *, issued: datetime) -> Patch:
    """The patch that renews a token Secret; arguments as for `secret_body`."""
    body = {
        "metadata": {"uid": action.secret_uid, "annotations": _times(tokens, issued)},
        "data": _data(tokens),
    }
    return Patch("super", SECRETS, action.super_namespace, action.secret_name, action.secret_uid, body)


def _data(tokens: Mapping[str, Granted]) -> dict[str, str]:
    return {key: base64.b64encode(grant.token.encode()).decode() for key, grant in tokens.items()}


def _times(tokens: Mapping[str, Granted], issued: datetime) -> dict[str, str]:
    expires = min(grant.expires for grant in tokens.values())
    return {
        names.TOKEN_EXPIRES: expires.astimezone(UTC).strftime(_ANNOTATION_FORMAT),
        names.TOKEN_RENEW: renew_at(issued, expires).astimezone(UTC).strftime(_ANNOTATION_FORMAT),
    }


def renew_at(issued: datetime, expires: datetime) -> datetime:
    """When to renew a token: at 80 % of its lifetime, or when it is a day old, whichever comes first."""
    return issued + min((expires - issued) * RENEW_AFTER_SHARE, RENEW_AFTER)


# --- Keeping ---------------------------------------------------------------------------------------------


def pod_of(secret: Envelope) -> tuple[str, str] | None:
    """(tenant namespace, name) of the Pod a token Secret belongs to; None if it is no token Secret."""
    namespace, name = secret.annotations.get(names.NAMESPACE), secret.annotations.get(names.POD_NAME)
    if not secret.name.startswith(names.TOKEN_SECRET_PREFIX) or not namespace or not name:
        return None
    return namespace, name


def plan(secret: Envelope, v: Envelope | None, context: TenantContext, *, now: datetime) -> Plan:
    """What a token Secret needs: renewal when due, deletion when its Pod has ended or is gone, else a look when due.

    Args:
        secret: the token Secret in the super cluster.
        v: the tenant's Pod that `pod_of` names, if the tenant has one.
        context: the tenant.
        now: the present, with time zone.
    """
    if secret.annotations.get(names.CLUSTER) != context.key or secret.deleting:
        return EMPTY
    pod_uid = secret.annotations.get(names.UID, "")
    if v is None or v.uid != pod_uid:
        return Plan((Delete("super", SECRETS, secret.namespace, secret.name, secret.uid, confirm=True),))
    if decode(v.status, _PodStatus).phase in TERMINAL_PHASES:
        return Plan((Delete("super", SECRETS, secret.namespace, secret.name, secret.uid),))
    due = _parse_time(secret.annotations.get(names.TOKEN_RENEW))
    if due is not None and now < due:
        # The Secret's state is good; the wait is only for the clock.
        return Plan(wait=Wait("the token is renewed in time", after=(due - now).total_seconds()))
    contents = _decode_contents(secret.annotations.get(names.TOKENS, ""))
    if contents is None:
        # Defaced beyond use: made anew from the Pod, which still waits for it.
        return Plan((Delete("super", SECRETS, secret.namespace, secret.name, secret.uid),))
    return Plan(
        (
            RequestToken(
                namespace=v.namespace,
                pod_name=v.name,
                pod_uid=v.uid,
                service_account=contents.service_account,
                super_namespace=secret.namespace,
                secret_name=secret.name,
                secret_uid=secret.uid,
                tokens=contents.tokens,
            ),
        )
    )


def _parse_time(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.strptime(text, _ANNOTATION_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None
