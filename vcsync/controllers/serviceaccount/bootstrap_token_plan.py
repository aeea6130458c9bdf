"""Deletes expired bootstrap tokens. Pure.

Behaviour: Kubernetes' `pkg/controller/bootstrap/tokencleaner.go`. The API server does not accept expired tokens, even
if they still exist.
"""

import base64
import binascii
from datetime import UTC, datetime

from msgspec import Struct

from vcsync.controllers.framework.event_handlers import own
from vcsync.controllers.framework.mirror import Key
from vcsync.controllers.framework.plan import NOTHING, Controller, Delete, Plan, View, Watch
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import decode

SYSTEM_NAMESPACE = "kube-system"
TYPE = "bootstrap.kubernetes.io/token"
BOOTSTRAP_TOKENS = Resource("", "v1", "secrets", "BootstrapToken", namespaced=True)
"""The field selector of bootstrap tokens. Their name prefix distinguishes them from Secrets that other controllers need."""
_OF_TYPE = f"type={TYPE}"


class _Secret(Struct):
    type: str = ""
    data: dict[str, str] | None = None


def plan(view: View, key: Key) -> Plan:
    """Delete a token when it has expired; a token without a valid expiration never expires."""
    secret = view.of[BOOTSTRAP_TOKENS].get(*key)
    if secret is None or secret.deleting or key.namespace != SYSTEM_NAMESPACE:
        return NOTHING
    found = decode(secret.rest, _Secret)
    expiration = (found.data or {}).get("expiration", "")
    if found.type != TYPE or not expiration:
        return NOTHING
    left = _seconds_until(expiration, view.now)
    if left > 0:
        return Plan(again=left)
    return Plan([[Delete(BOOTSTRAP_TOKENS, key.namespace, key.name, secret.uid)]])


def _seconds_until(encoded: str, now: datetime) -> float:
    """Return the time left until a moment (RFC 3339, base64); 0: it is invalid."""
    try:
        moment = datetime.fromisoformat(base64.b64decode(encoded, validate=True).decode())
    except (ValueError, binascii.Error):
        return 0.0
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()


TOKEN_CLEANER = Controller("token-cleaner-controller", (Watch(BOOTSTRAP_TOKENS, own, fields=_OF_TYPE),), plan)
