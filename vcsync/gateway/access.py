"""Access checks for impersonation in external control planes, whose API servers decide.

kube-apiserver authorizes impersonation by the verb `impersonate`. The gateway asks for the same decisions by
SubjectAccessReviews, and then impersonates the final user itself. Constrained impersonation is not offered: its verbs
mean something only to a server that has them switched on.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from vcsync.apimachinery.errors import forbidden, unavailable
from vcsync.apiserver.authorization.impersonation import Worked, impersonated, wanted_user
from vcsync.apiserver.request.caller import Asked, Caller, Decision
from vcsync.gateway.failures import NO_DECISION
from vcsync.gateway.impersonation import impersonation_headers
from vcsync.objects.recently_used import RecentlyUsed

ACCOUNT_MAY_NOT = "a ServiceAccount token can impersonate users only at the control plane's own address"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

Review = Callable[[bytes], Awaitable[bytes]]
"""Creates a SubjectAccessReview with a body, as the gateway, and returns the API server's answer."""


class _Status(msgspec.Struct):
    allowed: bool = False
    reason: str = ""


class _Answer(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_Answer)


async def impersonated_upstream(
    review: Review, caller: Caller, headers: Mapping[str, str], tenant: str
) -> Caller:
    """Return the user that the Impersonate-* headers name; without such headers, the caller.

    Args:
        review: Creates SubjectAccessReviews.
        caller: A caller of the tenant.
        headers: Headers of the request.
        tenant: The tenant.

    Raises:
        StatusError: 400, the headers name no user; 403, the caller may not impersonate it; 503, the API server does not
            decide.
    """
    wanted = wanted_user(headers.items())
    if wanted is None:
        return caller
    if caller.by_control_plane:
        raise forbidden("users", "", caller.user.name, ACCOUNT_MAY_NOT)
    impersonation_headers(caller.user)  # Refuses a caller that the API server could not know.

    async def decide(who: Caller, asked: Asked) -> Decision:
        try:
            answer = _decoder.decode(await review(msgspec.json.encode(review_of(who, asked))))
        except msgspec.MsgspecError as error:
            raise unavailable(NO_DECISION) from error
        return Decision(answer.status.allowed, answer.status.reason)

    worked: Worked = RecentlyUsed(1)
    return await impersonated(decide, caller, wanted, tenant, None, worked)


def review_of(caller: Caller, asked: Asked) -> dict[str, Any]:
    """Return the SubjectAccessReview that asks whether a caller may do something."""
    user = caller.user
    attributes = {
        "verb": asked.verb,
        "group": asked.group,
        "resource": asked.resource,
        "subresource": asked.subresource,
        "namespace": asked.namespace,
        "name": asked.name,
    }
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
            "resourceAttributes": attributes,
        },
    }
