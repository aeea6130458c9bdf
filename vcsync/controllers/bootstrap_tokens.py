"""Bootstrap tokens that have expired are deleted. Pure.

Behaviour: Kubernetes' `pkg/controller/bootstrap/tokencleaner.go`. They let nobody in from their last moment on, whether
they are still there or not.
"""

import base64
import binascii
from datetime import UTC, datetime

from msgspec import Struct

from vcsync.controllers.mirror import Key
from vcsync.controllers.plan import NOTHING, Controller, Delete, Look, Plan, Watch
from vcsync.controllers.waking import own
from vcsync.kube.envelope import decode
from vcsync.kube.resources import Resource

SYSTEM_NAMESPACE = "kube-system"
TYPE = "bootstrap.kubernetes.io/token"
BOOTSTRAP_TOKENS = Resource("", "v1", "secrets", "BootstrapToken", namespaced=True)
"""The Secrets of that type only, told apart by name from those that other controllers have mirrored."""
_OF_TYPE = f"type={TYPE}"


class _Secret(Struct):
    type: str = ""
    data: dict[str, str] | None = None


def plan(look: Look, key: Key) -> Plan:
    """Delete a token when its time is over; one whose time cannot be read has none."""
    secret = look.of[BOOTSTRAP_TOKENS].get(*key)
    if secret is None or secret.deleting or key.namespace != SYSTEM_NAMESPACE:
        return NOTHING
    found = decode(secret.rest, _Secret)
    expiration = (found.data or {}).get("expiration", "")
    if found.type != TYPE or not expiration:
        return NOTHING
    left = _seconds_until(expiration, look.now)
    if left > 0:
        return Plan(again=left)
    return Plan([[Delete(BOOTSTRAP_TOKENS, key.namespace, key.name, secret.uid)]])


def _seconds_until(encoded: str, now: datetime) -> float:
    """Return how long it is until a moment (RFC 3339, base64); 0: it cannot be read."""
    try:
        moment = datetime.fromisoformat(base64.b64decode(encoded, validate=True).decode())
    except (ValueError, binascii.Error):
        return 0.0
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()


TOKEN_CLEANER = Controller("token-cleaner-controller", (Watch(BOOTSTRAP_TOKENS, own, fields=_OF_TYPE),), plan)
