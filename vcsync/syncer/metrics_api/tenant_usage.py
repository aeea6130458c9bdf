"""Collects the usage of one tenant's Pods from the super clusters that run them.

The syncer reads its own super cluster. It asks the syncers of others by way of the tenant's control plane, as kubelets
(`nodes/proxy`). So no syncer needs to know another super cluster, and none tells a tenant more than its own usage.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec
import structlog

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.errors import KubeError
from vcsync.kube.resources import NODES
from vcsync.resourcemetrics.documents import Described, cleaned
from vcsync.syncer.metrics_api.answers import PodReport
from vcsync.syncer.metrics_api.super_usage import FRESH_SECONDS, SuperUsage

REPORT: Final = "usage"
"""Path of the kubelet API by which a syncer tells what it knows."""
ASK_SECONDS = 3.0
ALL_SECONDS = 7.0
AT_ONCE = 4
"""Timeout of one super cluster, and of all; number of those that are asked at the same time."""
MAX_REPORT_BYTES = 16 * 2**20
MOST_PAGES = 4
"""Pages of 500 nodes that are read."""
MOST_SUPER_CLUSTERS = 32
"""Super clusters that are asked. The tenant's control plane lists the nodes that name them."""
MOST_REPORTS = 20_000
"""Pods of other super clusters that are kept."""
_decode = msgspec.json.Decoder(list[PodReport]).decode
_log = structlog.get_logger(__name__)


class RunningPod(NamedTuple):
    """One of the tenant's Pods on this super cluster, and its super namespace."""

    pod: Described
    node: str
    super_namespace: str


class TenantUsage:
    """The usage of one tenant's Pods.

    Args:
        client: Client of the tenant's control plane.
        super_id: Id of this syncer's super cluster.
        pods: Returns the tenant's Pods there.
        below: Usage of that super cluster's Pods.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        client: Client,
        super_id: str,
        pods: Callable[[], Iterable[RunningPod]],
        below: SuperUsage,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._super_id = super_id
        self._pods = pods
        self._below = below
        self._clock = clock
        self._lock = asyncio.Lock()
        self._until = 0.0
        self._others: list[PodReport] = []
        self._nodes: list[Described] = []

    async def here(self) -> list[PodReport]:
        """Return the usage of the tenant's Pods on this syncer's super cluster."""
        usages = await self._below.read()
        found = []
        for each in self._pods():
            usage = usages.get(each.super_namespace, {}).get(each.pod.name)
            if usage is not None:
                found.append(PodReport(each.pod, each.node, usage))
        return found

    async def everywhere(self) -> tuple[list[PodReport], list[Described]]:
        """Return the usage of all of the tenant's Pods, and its nodes.

        Raises:
            KubeError: The tenant's nodes cannot be listed.
        """
        async with self._lock:
            if self._clock() >= self._until:
                await self._ask_others()
                self._until = self._clock() + FRESH_SECONDS
        return [*await self.here(), *self._others], self._nodes

    async def _ask_others(self) -> None:
        listed = await self._client.metadata_only().list(
            NODES, label_selector=f"{names.VIRTUAL_NODE}={names.TRUE}", most_pages=MOST_PAGES
        )
        self._nodes = [Described(node.name, "", dict(node.labels)) for node in listed]
        one_of_each: dict[str, str] = {}
        for each in listed:
            one_of_each.setdefault(names.super_cluster_of_node(each.name), each.name)
        others = {
            super_id: node for super_id, node in one_of_each.items() if super_id not in ("", self._super_id)
        }
        # Few at a time, since each report is in memory as a whole. Who has not answered by then is left out.
        turn = asyncio.Semaphore(AT_ONCE)
        found: list[PodReport] = []

        async def ask(super_id: str, node: str) -> None:
            async with turn:
                found.extend(await self._asked(super_id, node))

        chosen = sorted(others.items())[:MOST_SUPER_CLUSTERS]
        with suppress(TimeoutError):
            async with asyncio.timeout(ALL_SECONDS), asyncio.TaskGroup() as tasks:
                for super_id, node in chosen:
                    tasks.create_task(ask(super_id, node))
        self._others = found[:MOST_REPORTS]

    async def _asked(self, super_id: str, node: str) -> list[PodReport]:
        """Return what the syncer of another super cluster tells. Only Pods on nodes of that super cluster are accepted."""
        path = f"{NODES.path(name=node, subresource='proxy')}/{REPORT}"
        try:
            answer = await self._client.request("GET", path, timeout=ASK_SECONDS)
            # A long report takes tens of milliseconds.
            reports = await asyncio.to_thread(_reports, answer)
        except (KubeError, msgspec.MsgspecError) as error:
            _log.info(
                "the syncer of a super cluster does not tell usage", super_cluster=super_id, error=str(error)
            )
            return []
        return [each for each in reports if names.super_cluster_of_node(each.node) == super_id]


def _reports(answer: bytes) -> list[PodReport]:
    if len(answer) > MAX_REPORT_BYTES:
        raise msgspec.MsgspecError(f"the report has more than {MAX_REPORT_BYTES} bytes")
    return [PodReport(each.pod, each.node, cleaned(each.usage)) for each in _decode(answer)]


def encoded(reports: Iterable[PodReport]) -> bytes:
    """Encode what this syncer tells to another."""
    return msgspec.json.encode(list(reports))
