"""Calls a webhook for one write.

Source: `callHook`, `callAttrMutatingHook` of apiserver's `pkg/admission/plugin/webhook/{validating,mutating}`.
"""

import json
import math
import time
import uuid
from collections.abc import Awaitable, Callable
from functools import partial

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.resources import Resource
from vcsync.apiserver.admission.webhooks import review
from vcsync.apiserver.admission.webhooks.hooks import Hook
from vcsync.apiserver.admission.webhooks.review import Answer
from vcsync.apiserver.admission.webhooks.selection import Request
from vcsync.apiserver.egress.answers import read_answer
from vcsync.apiserver.egress.client import Call
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.egress.target import target_of

REQUEST_SECONDS = 60.0
"""Time limit for all webhooks of one request: kube-apiserver's default --request-timeout."""
LARGEST_RESPONSE = 8 << 20
"""Bytes of a response at most."""
ENVELOPE = 16 << 10
"""Estimated bytes of an AdmissionReview without its objects."""

Reach = Callable[[Call], Awaitable[bytes]]
"""Sends a call and returns the body of the response."""


class CallingWebhookFailed(Exception):
    """A webhook cannot be called, or its response is invalid. Its failure policy decides."""

    def __init__(self, hook: Hook, why: str) -> None:
        """Create the error.

        Args:
            hook: The webhook.
            why: The reason, without the name of the webhook.
        """
        super().__init__(f"failed calling webhook {json.dumps(hook.name, ensure_ascii=False)}: {why}")


async def call(reach: Reach, hook: Hook, request: Request, resource: Resource, *, mutating: bool) -> Answer:
    """Call a webhook, and pass its warnings and audit annotations on.

    Args:
        reach: Sends the call.
        hook: The webhook.
        request: The write.
        resource: The resource in whose version the webhook receives the objects.
        mutating: Whether the webhook may change the object.

    Returns:
        The valid response.

    Raises:
        CallingWebhookFailed: There is no valid response.
        StatusError: 400, the webhook does not support dry runs; 504, the time limit of the request has passed.
    """
    admission = request.admission
    scope = admission.scope
    if admission.dry_run and not hook.dry_run:
        name = json.dumps(hook.name, ensure_ascii=False)
        raise errors.bad_request(f"admission webhook {name} does not support dry run")
    try:
        version = review.version_for(hook.reviews)
    except CallFailed as why:
        raise CallingWebhookFailed(hook, f"could not create admission objects: {why}") from why
    uid = str(uuid.uuid4())
    new, old = await request.objects.json(resource)
    size = len(bytes(new)) + len(bytes(old)) + ENVELOPE

    def body() -> bytes:
        return review.written(version, uid, request.admission_request(resource), new, old)

    seconds = min(float(hook.seconds), left(scope.began))
    try:
        target = target_of(scope.tenant, hook.client)
    except CallFailed as why:
        raise CallingWebhookFailed(hook, f"could not get REST client: {why}") from why
    query = f"timeout={math.ceil(seconds)}s"
    try:
        response = await reach(Call(target, body, seconds, size, query, LARGEST_RESPONSE))
    except CallFailed as why:
        raise CallingWebhookFailed(hook, f"failed to call webhook: {why}") from why
    try:
        read = partial(review.read, response, version, uid, hook.name, mutating=mutating)
        answer = await read_answer(scope.tenant, response, read)
    except CallFailed as why:
        raise CallingWebhookFailed(hook, str(why)) from why
    for key, value in answer.annotations.items():
        scope.audit.annotate(f"{hook.name}/{key}", value)
    scope.warn(answer.warnings)
    return answer


def left(began: float) -> float:
    """Return the seconds that webhooks may still take.

    Args:
        began: Start of the request, on the monotonic clock.

    Raises:
        StatusError: 504, the time limit has passed.
    """
    seconds = began + REQUEST_SECONDS - time.monotonic()
    if seconds <= 0:
        raise StatusError(504, "Timeout", "Timeout: request did not complete within requested timeout")
    return seconds
