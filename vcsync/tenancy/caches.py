"""Waits for caches, with a limit: a role or session that cannot read its collections in time fails and names them."""

import asyncio
from collections.abc import Sequence

from vcsync.kube.errors import KubeError
from vcsync.kube.reflector import Reflector

CACHE_SYNC_SECONDS = 120.0
"""Seconds that a role, or its session with a tenant, waits for caches: the default of controller-runtime's `CacheSyncTimeout`."""


class CachesNotSynced(KubeError):
    """Collections could not be read in time. The text names their resources and the last error of each."""


async def wait_for_caches(reflectors: Sequence[Reflector], seconds: float = CACHE_SYNC_SECONDS) -> None:
    """Wait until all reflectors have read their collections.

    The caller's supervisor restarts it, the registry a tenant's session, so a server that answers later is used then.

    Args:
        reflectors: reflectors that are running already.
        seconds: limit on the wait for all of them together.

    Raises:
        CachesNotSynced: some collections have not been read in time.
    """
    try:
        async with asyncio.timeout(seconds):
            for reflector in reflectors:
                await reflector.wait_synced()
    except TimeoutError as error:
        raise CachesNotSynced(f"could not read within {seconds:g} s: {not_synced(reflectors)}") from error


def not_synced(reflectors: Sequence[Reflector]) -> str:
    """Return the resources that have not been read yet, each with its last error, as text; "" if there are none."""
    return ", ".join(_with_error(each) for each in reflectors if not each.synced)


def _with_error(reflector: Reflector) -> str:
    error = reflector.statistics().last_error
    return f"{reflector.resource.plural} ({error})" if error else reflector.resource.plural
