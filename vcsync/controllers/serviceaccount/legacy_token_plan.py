"""Auto-generated token Secrets that have not been used for a year: marked, then deleted a year later.

Behaviour: Kubernetes' `pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go`. Tokens that users requested
with a Secret that no account lists are never changed. Pure.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from vcsync.controllers.framework import pods
from vcsync.controllers.framework.mirror import Key
from vcsync.controllers.framework.plan import NOTHING, Controller, Delete, Patch, Plan, View, Watch
from vcsync.controllers.serviceaccount.tokens_controller import (
    ACCOUNT_NAME,
    ACCOUNT_UID,
    ONLY_TOKENS,
    TOKEN_TYPE,
    holding_tokens,
)
from vcsync.kube.resources import CONFIG_MAPS, PODS, SECRETS, SERVICE_ACCOUNTS
from vcsync.objects.envelope import Envelope, decode, untyped

UNUSED = timedelta(days=365)
"""`--legacy-service-account-token-clean-up-period`: time without use until a token is marked, and then until it is deleted."""
RECHECK_SECONDS = 24 * 3600.0
LAST_USED = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
TRACKING = "kube-apiserver-legacy-service-account-token-tracking"
"""The ConfigMap with the date since when the API server labels used tokens."""
SYSTEM_NAMESPACE = "kube-system"


class _Data(Struct):
    data: dict[str, str] | None = None


class _Secret(Struct):
    type: str = ""


class _Reference(Struct):
    name: str = ""


class _Account(Struct):
    secrets: tuple[_Reference, ...] | None = None


def plan(view: View, key: Key) -> Plan:
    """Mark an unused token as invalid, and delete it when it has been marked for long enough."""
    secret = view.of[SECRETS].get(*key)
    if secret is None or secret.deleting or decode(secret.rest, _Secret).type != TOKEN_TYPE:
        return NOTHING
    again = Plan(again=RECHECK_SECONDS)
    tracked = _tracked_since(view, key.tenant)
    if tracked is None or view.now < tracked + timedelta(days=1) + UNUSED:
        return again
    if not _is_unused(secret, view.now) or not _is_listed(view, key, secret) or _is_mounted(view, key):
        return again
    since = secret.labels.get(INVALID_SINCE, "")
    if _day(since) is None:
        patch = {"metadata": {"uid": secret.uid, "labels": {INVALID_SINCE: _text(view.now)}}}
        return Plan([[Patch(SECRETS, key.namespace, key.name, patch)]], again=RECHECK_SECONDS)
    if since < _text(view.now - UNUSED):
        return Plan([[Delete(SECRETS, key.namespace, key.name, secret.uid)]])
    return again


def _tracked_since(view: View, tenant: str) -> datetime | None:
    found = view.of[CONFIG_MAPS].get(tenant, SYSTEM_NAMESPACE, TRACKING)
    return None if found is None else _day((decode(found.rest, _Data).data or {}).get("since", ""))


def _is_unused(secret: Envelope, now: datetime) -> bool:
    """Return whether a token is old and has been unused for a long time; an invalid label counts as recent use."""
    if pods.moment(secret.creation_timestamp) >= now - UNUSED:
        return False
    last = secret.labels.get(LAST_USED)
    return last is None or (_day(last) is not None and last < _text(now - UNUSED))


def _is_listed(view: View, key: Key, secret: Envelope) -> bool:
    """Return whether its account lists it, as accounts list auto-generated tokens."""
    name, uid = secret.annotations.get(ACCOUNT_NAME, ""), secret.annotations.get(ACCOUNT_UID, "")
    account = view.of[SERVICE_ACCOUNTS].get(key.tenant, key.namespace, name) if name else None
    if account is None or (uid and account.uid != uid):
        return False
    return any(each.name == secret.name for each in decode(account.rest, _Account).secrets or ())


def _is_mounted(view: View, key: Key) -> bool:
    """Return whether a Pod's spec names it: as a volume, a variable, or to pull images."""
    return any(
        key.name in _texts(untyped(pod.spec)) for pod in view.of[PODS].within(key.tenant, key.namespace)
    )


def _texts(part: Any) -> Iterable[str]:
    """Iterate over all texts that could name a Secret. A Secret kept by mistake does less harm than one deleted by mistake."""
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
