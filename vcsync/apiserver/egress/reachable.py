"""The endpoints of a tenant's Service to which connections may be made."""

import random

from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.egress.policy import Policy
from vcsync.apiserver.egress.services import Endpoint, Services
from vcsync.apiserver.egress.target import Target

MAX_ADDRESSES = 4
"""Addresses of one host that are tried."""
REFUSED = "the operator of this server does not allow it to be called"
NO_CONNECTION = "dial tcp: no connection to any endpoint"


async def service_endpoints(policy: Policy, services: Services | None, target: Target) -> list[Endpoint]:
    """Return the allowed endpoints of a target's Service, in random order, `MAX_ADDRESSES` at most.

    Endpoints that do not exist and that are not allowed look the same.

    Args:
        policy: What the operator allows.
        services: Finds endpoints. None: Services are not called.
        target: A target with a Service.

    Raises:
        CallFailed: There is no allowed endpoint. The message says why, without the call.
        StoreError: The store cannot be read.
    """
    if services is None or not policy.permits(target):
        raise CallFailed(REFUSED)
    endpoints = await services.endpoints(target)
    reachable = [each for each in endpoints if policy.reachable(target, each.address)]
    if not reachable:
        raise CallFailed(REFUSED)
    random.shuffle(reachable)
    return reachable[:MAX_ADDRESSES]
