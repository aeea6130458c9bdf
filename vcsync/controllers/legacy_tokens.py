"""Secrets with tokens that were made for an account by itself, and that nobody has used for a year: marked, then deleted.

Behaviour: Kubernetes' `pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go`. Tokens that users asked for,
by a Secret that no account lists, are never touched. Pure.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from vcsync.controllers import pods
from vcsync.controllers.mirror import Key
from vcsync.controllers.plan import NOTHING, Controller, Delete, Look, Patch, Plan, Watch
from vcsync.controllers.token_secrets import (
    ACCOUNT_NAME,
    ACCOUNT_UID,
    ONLY_TOKENS,
    TOKEN_TYPE,
    holding_tokens,
)
from vcsync.kube.envelope import Envelope, decode, untyped
from vcsync.kube.resources import CONFIG_MAPS, PODS, SECRETS, SERVICE_ACCOUNTS

UNUSED = timedelta(days=365)
"""`--legacy-service-account-token-clean-up-period`: unused for so long it is marked, marked for so long deleted."""
LOOK_SECONDS = 24 * 3600.0
LAST_USED = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
TRACKING = "kube-apiserver-legacy-service-account-token-tracking"
"""ConfigMap that tells the day since when the API server marks tokens that are used."""
SYSTEM_NAMESPACE = "kube-system"


class _Data(Struct):
    data: dict[str, str] | None = None


class _Secret(Struct):
    type: str = ""


class _Reference(Struct):
    name: str = ""


class _Account(Struct):
    secrets: tuple[_Reference, ...] | None = None


def plan(look: Look, key: Key) -> Plan:
    """Mark a token as invalid that nobody has used for long, delete it when it has been for long."""
    secret = look.of[SECRETS].get(*key)
    if secret is None or secret.deleting or decode(secret.rest, _Secret).type != TOKEN_TYPE:
        return NOTHING
    again = Plan(again=LOOK_SECONDS)
    tracked = _tracked_since(look, key.tenant)
    if tracked is None or look.now < tracked + timedelta(days=1) + UNUSED:
        return again
    if not _is_unused(secret, look.now) or not _is_listed(look, key, secret) or _is_mounted(look, key):
        return again
    since = secret.labels.get(INVALID_SINCE, "")
    if _day(since) is None:
        patch = {"metadata": {"uid": secret.uid, "labels": {INVALID_SINCE: _text(look.now)}}}
        return Plan([[Patch(SECRETS, key.namespace, key.name, patch)]], again=LOOK_SECONDS)
    if since < _text(look.now - UNUSED):
        return Plan([[Delete(SECRETS, key.namespace, key.name, secret.uid)]])
    return again


def _tracked_since(look: Look, tenant: str) -> datetime | None:
    found = look.of[CONFIG_MAPS].get(tenant, SYSTEM_NAMESPACE, TRACKING)
    return None if found is None else _day((decode(found.rest, _Data).data or {}).get("since", ""))


def _is_unused(secret: Envelope, now: datetime) -> bool:
    """Whether a token is old, and was not used for long; one that tells nonsense may have been."""
    if pods.moment(secret.creation_timestamp) >= now - UNUSED:
        return False
    last = secret.labels.get(LAST_USED)
    return last is None or (_day(last) is not None and last < _text(now - UNUSED))


def _is_listed(look: Look, key: Key, secret: Envelope) -> bool:
    """Whether its account lists it, as accounts do with those that were made by themselves."""
    name, uid = secret.annotations.get(ACCOUNT_NAME, ""), secret.annotations.get(ACCOUNT_UID, "")
    account = look.of[SERVICE_ACCOUNTS].get(key.tenant, key.namespace, name) if name else None
    if account is None or (uid and account.uid != uid):
        return False
    return any(each.name == secret.name for each in decode(account.rest, _Account).secrets or ())


def _is_mounted(look: Look, key: Key) -> bool:
    """Whether a Pod's spec names it: as a volume, a variable, or to pull images."""
    return any(
        key.name in _texts(untyped(pod.spec)) for pod in look.of[PODS].within(key.tenant, key.namespace)
    )


def _texts(part: Any) -> Iterable[str]:
    """All texts that could name a Secret. It is better to keep one too many than one too few."""
    if isinstance(part, dict | list):
        values = part.values() if isinstance(part, dict) else part
        return {text for value in values for text in _texts(value)}
    return {part} if isinstance(part, str) else set()


def _day(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) if len(text) == 10 else None
    except ValueError:
        return None


def _text(day: datetime) -> str:
    return day.strftime("%Y-%m-%d")


LEGACY_TOKENS = Controller(
    "legacy-serviceaccount-token-cleaner-controller",
    (Watch(SECRETS, holding_tokens, fields=ONLY_TOKENS),),
    plan,
    reads=(SERVICE_ACCOUNTS, PODS, CONFIG_MAPS),
)
