"""Tokens of the tenant's ServiceAccounts in the super cluster: one Secret for each Pod, renewed as by a kubelet.

The super cluster's API server would issue a Pod's projected token, but the tenant's API server does not accept its tokens. So
every `serviceAccountToken` source becomes a Secret source. The tokens in the Secret come from the *tenant's* API and are
bound to the tenant's Pod, so they become invalid with it. Pure logic; the engine sends the requests and keeps the timer.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from vcsync.api import names
from vcsync.kube.resources import SECRETS
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.times import time_text
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
"""Age at which the kubelet renews a token, whatever its lifetime."""
TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})

_ANNOTATION_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"


class Granted(Struct, frozen=True):
    """The tenant API's answer to one token request."""

    token: str
    expires: datetime
    """`status.expirationTimestamp`, with time zone, by the clock of the tenant's API server."""
    seconds: int
    """`spec.expirationSeconds` of the answer: its lifetime, independent of any clock."""

    def __repr__(self) -> str:
        """Never show the token."""
        return f"Granted(expires={self.expires.isoformat()})"


class _TokenStatus(Struct, rename="camel"):
    token: str
    expiration_timestamp: datetime


class _TokenSpec(Struct, rename="camel"):
    expiration_seconds: int


class _TokenAnswer(Struct):
    spec: _TokenSpec
    status: _TokenStatus


class _Contents(Struct, frozen=True, rename="camel"):
    service_account: str
    tokens: tuple[TokenSource, ...]


class _PodStatus(Struct):
    phase: str = ""


def secret_name(pod_uid: str) -> str:
    """Return the name of a Pod's token Secret."""
    return names.TOKEN_SECRET_PREFIX + pod_uid


def encode_contents(service_account: str, tokens: tuple[TokenSource, ...]) -> str:
    """Return the text of annotation `TOKENS`: the ServiceAccount and the tokens of a Secret."""
    return msgspec.json.encode(_Contents(service_account, tokens)).decode()


def _decode_contents(text: str) -> _Contents | None:
    """Decode the text of `encode_contents`; None if the annotation was changed in the super cluster and is invalid."""
    try:
        contents = msgspec.json.decode(text, type=_Contents)
    except msgspec.DecodeError:
        return None
    return contents if contents.service_account and contents.tokens else None


def request_for(
    v: Envelope, service_account: str, tokens: tuple[TokenSource, ...], context: TenantContext, view: View
) -> tuple[RequestToken, ...]:
    """Return the request for a Pod's tokens; empty if its token Secret exists."""
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
    """Return the TokenRequest to POST to the tenant's `serviceaccounts/<service_account>/token`."""
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
        msgspec.DecodeError: it is not a TokenRequest with a token.
    """
    found = msgspec.json.decode(answer, type=_TokenAnswer)
    return Granted(found.status.token, found.status.expiration_timestamp, found.spec.expiration_seconds)


def secret_body(
    action: RequestToken, tokens: Mapping[str, Granted], context: TenantContext, *, issued: datetime
) -> dict[str, Any]:
    """Return the token Secret to create.

    Args:
        action: the request.
        tokens: key of each token source -> the token.
        context: the tenant's settings.
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
                **_times(action, tokens, issued),
            },
        },
        "data": _data(tokens),
    }


def secret_patch(action: RequestToken, tokens: Mapping[str, Granted], *, issued: datetime) -> Patch:
    """Return the patch that renews a token Secret. The arguments are those of `secret_body`."""
    body = {
        "metadata": {"uid": action.secret_uid, "annotations": _times(action, tokens, issued)},
        "data": _data(tokens),
    }
    return Patch("super", SECRETS, action.super_namespace, action.secret_name, action.secret_uid, body)


def _data(tokens: Mapping[str, Granted]) -> dict[str, str]:
    return {key: base64.b64encode(grant.token.encode()).decode() for key, grant in tokens.items()}


def _times(action: RequestToken, tokens: Mapping[str, Granted], issued: datetime) -> dict[str, str]:
    expires = min(grant.expires for grant in tokens.values())
    lifetime = timedelta(seconds=min(grant.seconds for grant in tokens.values()))
    due = renew_at(issued, min(lifetime, _shortest(action.tokens)))
    return {
        names.TOKEN_EXPIRES: time_text(expires),
        names.TOKEN_RENEW: time_text(due),
    }


def renew_at(issued: datetime, lifetime: timedelta) -> datetime:
    """Return when to renew a token: at 80 % of its lifetime, or when it is a day old, whichever comes first.

    Args:
        issued: when it was issued, by this process's clock, which may differ from that of the server.
        lifetime: the token's lifetime.
    """
    return issued + min(lifetime * RENEW_AFTER_SHARE, RENEW_AFTER)


def _shortest(sources: tuple[TokenSource, ...]) -> timedelta:
    """Return the shortest requested lifetime of a Secret's tokens."""
    return timedelta(seconds=min(source.expiration_seconds for source in sources))


# --- Renewal and removal ---------------------------------------------------------------------------------


def pod_of(secret: Envelope) -> tuple[str, str] | None:
    """Return (tenant namespace, name) of the Pod of a token Secret; None for other Secrets."""
    namespace, name = secret.annotations.get(names.NAMESPACE), secret.annotations.get(names.POD_NAME)
    if not secret.name.startswith(names.TOKEN_SECRET_PREFIX) or not namespace or not name:
        return None
    return namespace, name


def plan(secret: Envelope, v: Envelope | None, context: TenantContext, *, now: datetime) -> Plan:
    """Return the plan of a token Secret: renewal when due, or deletion when its Pod has ended or is gone.

    Args:
        secret: the token Secret in the super cluster.
        v: the tenant's Pod that `pod_of` names; None if it does not exist.
        context: the tenant's settings.
        now: the current time, with time zone.
    """
    if secret.annotations.get(names.CLUSTER) != context.key or secret.deleting:
        return EMPTY
    pod_uid = secret.annotations.get(names.UID, "")
    if v is None or v.uid != pod_uid:
        return Plan((Delete("super", SECRETS, secret.namespace, secret.name, secret.uid, confirm=True),))
    if decode(v.status, _PodStatus).phase in TERMINAL_PHASES:
        return Plan((Delete("super", SECRETS, secret.namespace, secret.name, secret.uid),))
    due = _parse_time(secret.annotations.get(names.TOKEN_RENEW))
    contents = _decode_contents(secret.annotations.get(names.TOKENS, ""))
    # No renewal can be due later than this, unless the clock was set back after the token was issued.
    latest = renew_at(now, _shortest(contents.tokens)) if contents is not None else due
    if due is not None and latest is not None and now < due <= latest:
        # The Secret is up to date; it waits until the renewal is due.
        return Plan(wait=Wait("the token is renewed in time", after=(due - now).total_seconds()))
    if contents is None:
        # The annotation is invalid. The Secret is deleted and created again from its Pod.
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
