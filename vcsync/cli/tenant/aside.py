"""Tenants that are set aside because their work stalled the server, as the tenant controller reports them."""

from contextlib import suppress

from vcsync.api import names
from vcsync.api.conditions import Condition, condition_of
from vcsync.api.objects import InvalidObject, Tenant
from vcsync.api.resources import TENANTS
from vcsync.kube.client import Client
from vcsync.kube.errors import Forbidden, NotFound
from vcsync.objects.envelope import Envelope


async def set_aside(client: Client) -> dict[str, Condition]:
    """Return the tenants of the pool that are set aside, each with the condition that says why and what to do.

    Args:
        client: Client of the meta cluster.

    Raises:
        KubeError: The meta cluster cannot be asked.
    """
    try:
        found = await client.list(TENANTS)
    except (
        NotFound,
        Forbidden,
    ):  # An earlier version has no Tenants, and a caller's rights may be of that time.
        return {}
    return {each.name: why for each in found if (why := _condition(each)) is not None}


async def sentences(client: Client, tenant: str) -> list[str]:
    """Return what there is to say about a tenant that is set aside; empty: it is not.

    Raises:
        KubeError: The meta cluster cannot be asked.
    """
    try:
        why = _condition(await client.get(TENANTS, tenant))
    except (NotFound, Forbidden):
        return []
    return [] if why is None else [f"{why.reason}: {why.message}."]


def _condition(tenant: Envelope) -> Condition | None:
    with suppress(InvalidObject):
        ready = condition_of(Tenant.from_envelope(tenant).status.conditions, "Ready")
        if ready is not None and ready.status != "True" and ready.reason == names.SET_ASIDE:
            return ready
    return None
