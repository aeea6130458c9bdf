"""The subresource of Pods that only syncers use: who is a syncer, and which permissions a request for it needs. Pure."""

from dataclasses import replace
from typing import Final

from vcsync.api import names
from vcsync.apiserver.request.caller import Asked, Caller
from vcsync.apiserver.request.request_info import RequestInfo

SYNCER: Final = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(names.ROLE_SYNCER)}"
"""The user that a syncer is in a tenant."""


def is_syncer(caller: Caller) -> bool:
    """Return whether a request comes from a syncer itself. A user that impersonates the syncer is none."""
    return caller.user.name == SYNCER and not (caller.system or caller.impersonated or caller.home)


def is_bound_status(asked: Asked) -> bool:
    """Return whether a request names the subresource with which a Pod is bound and gets its status."""
    return (asked.group, asked.resource, asked.subresource) == ("", "pods", names.BOUND_STATUS)


def required(caller: Caller, info: RequestInfo) -> tuple[RequestInfo, ...]:
    """Return the requests that a caller must be permitted: its own, or for a syncer's write of both parts each of them.

    No role can grant the subresource by its name, and a syncer that may not do one of the two may not do them together.
    Other callers are asked for the permission to the subresource as named, so they learn what Kubernetes would say.

    Args:
        caller: The caller.
        info: Its request.
    """
    if not (is_bound_status(info) and info.verb == "patch" and is_syncer(caller)):
        return (info,)
    return replace(info, verb="create", subresource="binding"), replace(info, subresource="status")
