"""One call of one webhook.

Source: `callHook`, `callAttrMutatingHook` of apiserver's `pkg/admission/plugin/webhook/{validating,mutating}`.
"""

import json
import math
import time
import uuid
from collections.abc import Awaitable, Callable

from vcsync.controlplane import errors
from vcsync.controlplane.admission.webhooks import review
from vcsync.controlplane.admission.webhooks.hooks import Hook
from vcsync.controlplane.admission.webhooks.review import Answer
from vcsync.controlplane.admission.webhooks.selection import Request
from vcsync.controlplane.egress.client import Call
from vcsync.controlplane.egress.failure import CallFailed
from vcsync.controlplane.egress.target import target_of
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.resources import Resource

REQUEST_SECONDS = 60.0
"""How long all webhooks of one request may take: kube-apiserver's --request-timeout."""
LARGEST_ANSWER = 8 << 20
ENVELOPE = 16 << 10
"""Bytes of an AdmissionReview beside its objects, about."""

Reach = Callable[[Call], Awaitable[bytes]]


class Failed(Exception):
    """A webhook could not be asked, or answered nonsense: its failure policy says what that means."""

    def __init__(self, hook: Hook, why: str) -> None:
        super().__init__(f"failed calling webhook {json.dumps(hook.name, ensure_ascii=False)}: {why}")


async def call(reach: Reach, hook: Hook, request: Request, resource: Resource, *, mutating: bool) -> Answer:
    """Ask a webhook.

    Returns:
        what it answered, once its warnings and annotations are noted.

    Raises:
        Failed: it did not answer.
        StatusError: it may not be asked (400), or the whole request has taken too long (504).
    """
    asked = request.asked
    scope = asked.scope
    if asked.dry_run and not hook.dry_run:
        told = json.dumps(hook.name, ensure_ascii=False)
        raise errors.bad_request(f"admission webhook {told} does not support dry run")
    try:
        version = review.version_for(hook.reviews)
    except CallFailed as why:
        raise Failed(hook, f"could not create admission objects: {why}") from why
    uid = str(uuid.uuid4())
    new, old = await request.seen.json(resource)
    size = len(bytes(new)) + len(bytes(old)) + ENVELOPE

    def body() -> bytes:
        return review.written(version, uid, request.told(resource), new, old)

    seconds = min(float(hook.seconds), left(scope.began))
    try:
        target = target_of(scope.tenant, hook.client)
    except CallFailed as why:
        raise Failed(hook, f"could not get REST client: {why}") from why
    query = f"timeout={math.ceil(seconds)}s"
    try:
        found = await reach(Call(target, body, seconds, size, query, LARGEST_ANSWER))
    except CallFailed as why:
        raise Failed(hook, f"failed to call webhook: {why}") from why
    try:
        answer = review.read(found, version, uid, hook.name, mutating=mutating)
    except CallFailed as why:
        raise Failed(hook, str(why)) from why
    for key, value in answer.annotations.items():
        scope.audit.annotate(f"{hook.name}/{key}", value)
    scope.warn(answer.warnings)
    return answer


def left(began: float) -> float:
    """Return how many seconds webhooks may still take for a request that began then.

    Raises:
        StatusError: 504, none.
    """
    found = began + REQUEST_SECONDS - time.monotonic()
    if found <= 0:
        raise StatusError(504, "Timeout", "Timeout: request did not complete within requested timeout")
    return found
