"""Checks that a kubeconfig leads to the intended super cluster, since two syncers must never own one cluster."""

from __future__ import annotations

import structlog
from msgspec import Struct, field
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.errors import KubeError, NotFound
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.objects.envelope import Envelope, decode

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0

log = structlog.get_logger(__name__)


class _ConfigMap(Struct, gc=False):
    data: dict[str, str] = field(default_factory=dict)


class WrongSuperCluster(Exception):
    """The kubeconfig does not lead to the intended super cluster."""


async def check_identity(client: Client, super_id: str) -> None:
    """Wait until the super cluster answers, then compare its id with the intended one.

    The id is in ConfigMap kube-system/supercluster-info (reference section 1.4).

    Args:
        client: client of the super cluster.
        super_id: the intended id.

    Raises:
        WrongSuperCluster: the cluster has another id, or none.
    """
    retrying = AsyncRetrying(
        retry=retry_if_exception(
            lambda error: isinstance(error, KubeError) and not isinstance(error, NotFound)
        ),
        wait=wait_random_exponential(multiplier=FIRST_PAUSE_SECONDS, max=LONGEST_PAUSE_SECONDS),
        before_sleep=_log_retry,
        reraise=True,
    )
    try:
        info: Envelope = await retrying(
            client.get, CONFIG_MAPS, names.SUPER_CLUSTER_INFO, names.SUPER_CLUSTER_INFO_NAMESPACE
        )
    except NotFound:
        raise WrongSuperCluster(
            f"the cluster has no ConfigMap {names.SUPER_CLUSTER_INFO_NAMESPACE}/{names.SUPER_CLUSTER_INFO}: "
            f"register it with `vcsync super add {super_id}`"
        ) from None
    found = decode(info.rest, _ConfigMap).data.get(names.SUPER_CLUSTER_INFO_KEY, "") if info.rest else ""
    if found != super_id:
        raise WrongSuperCluster(
            f"the kubeconfig leads to super cluster {found!r}, not {super_id!r}: correct the SuperCluster's "
            "kubeconfig Secret"
        )


def _log_retry(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    log.warning("super cluster does not answer", error=str(error), attempts=state.attempt_number)
