"""Connects to the API servers of the pool's super clusters for logs, streams and usage of tenants' Pods.

The credentials permit these requests in super namespaces of tenants only. Before each request the Pod in the super cluster
is read, and it must be the copy of the tenant's Pod. Addresses of super clusters are never in an answer.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import structlog

from vcsync.api import names
from vcsync.apiserver.kubelets import super_pods
from vcsync.apiserver.kubelets.client import MAX_STREAMS
from vcsync.apiserver.kubelets.pool import Pool
from vcsync.apiserver.kubelets.super_pods import StreamRequest
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import ApiError, Forbidden, KubeError, NotFound, Unauthorized
from vcsync.kube.resources import PODS
from vcsync.process.open_files import share_of_files
from vcsync.streams import refusals
from vcsync.streams.budget import ConnectionBudget
from vcsync.streams.raw_response import RawResponse
from vcsync.streams.refusals import Refused
from vcsync.streams.super_request import CONNECT_SECONDS, Dialled, SuperRequest, answered, dialled

SHARE_OF_FILES = 0.25
"""Share of the open files for connections to super clusters. Those of clients have the rest; see `serving.connections`."""
MAX_CONNECTIONS = 10_000
"""Streams of all tenants."""
REREAD_SECONDS = 10.0
"""Time for which credentials of a super cluster are used before they are read again."""
USAGE = "/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods"
_T = TypeVar("_T")
_log = structlog.get_logger(__name__)


class NotMeasured(Exception):
    """A super cluster does not tell the usage of a tenant's Pods.

    Args:
        message: Why.
        anybody: Whether it tells nobody's usage at present.
    """

    def __init__(self, message: str, *, anybody: bool = False) -> None:
        super().__init__(message)
        self.anybody = anybody


@dataclass(frozen=True, slots=True)
class TenantPods:
    """The Pods of one namespace of a tenant.

    Attributes:
        tenant: Name of the tenant.
        control_plane: UID of its control plane.
        namespace: The namespace.
    """

    tenant: str
    control_plane: str
    namespace: str


@dataclass(eq=False, slots=True)
class _Link:
    """The way to one super cluster, with the kubeconfig that it is made of, and when that was read or replaced."""

    kubeconfig: bytes
    connection: Connection
    client: Client
    read_at: float


class SuperClusters:
    """Sends requests for Pods to the super clusters that run them.

    Args:
        pool: The records of the pool.
        clock: Monotonic seconds.
    """

    def __init__(self, pool: Pool, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._clock = clock
        self._links: dict[str, _Link] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._retired: list[_Link] = []
        self._streams = ConnectionBudget(share_of_files(SHARE_OF_FILES, MAX_CONNECTIONS), MAX_STREAMS)

    async def run(self) -> None:
        """Wait until cancelled, and then close all connections."""
        try:
            await asyncio.Event().wait()
        finally:
            for link in (*self._retired, *self._links.values()):
                await link.client.close()
            await self._pool.close()

    @asynccontextmanager
    async def opened(
        self, pods: TenantPods, asked: StreamRequest, request: tuple[str, str, Sequence[str]]
    ) -> AsyncIterator[RawResponse]:
        """Send a request to the super cluster of a Pod, and yield its answer, which grants the request.

        Args:
            pods: Whose Pod it is.
            asked: The request.
            request: Method, HTTP version and further header lines.

        Raises:
            NotInPool: The tenant is not in the pool.
            StatusError: 429 if too many streams are open, 404 if the Pod is not there, 503 if the super cluster or the meta
                cluster cannot be reached, or the answer that refuses the request.
        """
        if not self._streams.take(pods.tenant):
            raise super_pods.refused(refusals.too_many(), asked.pod)
        try:
            async with _Deadline() as deadline:
                key = await self._key(pods, asked.super_id)
                if not key:
                    raise refusals.not_there(asked.pod)
                link = await self._link(asked.super_id)
                deadline.error = refusals.unreachable(asked.super_id)
                connected = await self._connected(link, pods, asked, key)
            namespace = names.super_namespace(key, pods.namespace)
            sent = SuperRequest(
                asked.super_id,
                namespace,
                asked.pod,
                asked.action,
                asked.query,
                *request,
                target=asked.target,
                path=asked.path,
                body=asked.body,
                shown=asked.shown,
            )
            async with answered(connected, sent, pods.tenant) as answer:
                yield answer
        except Refused as error:
            raise super_pods.refused(error, asked.pod) from error
        finally:
            self._streams.give_back(pods.tenant)

    async def usage(self, pods: TenantPods, super_id: str) -> bytes:
        """Return the PodMetricsList of a super namespace, as its super cluster answers.

        Args:
            pods: Whose Pods they are.
            super_id: Id of the super cluster.

        Raises:
            NotInPool: The tenant is not in the pool.
            NotMeasured: The super cluster does not tell it.
            StatusError: 503, the meta cluster cannot be read.
        """
        key = await self._key(pods, super_id)
        if not key:
            raise NotMeasured("the namespace is not on this super cluster")
        path = USAGE.format(names.super_namespace(key, pods.namespace))
        try:
            link = await self._link(super_id)
            _, answer = await self._called(link, super_id, lambda client: client.request("GET", path))
        except Forbidden as error:
            raise NotMeasured(str(error)) from error
        except (Refused, KubeError) as error:
            raise NotMeasured(str(error), anybody=True) from error
        return answer

    async def _key(self, pods: TenantPods, super_id: str) -> str:
        """Return the tenant's cluster key. Empty: the ledger does not have its namespace on the super cluster."""
        try:
            key = await self._pool.key_of(pods.tenant, pods.control_plane)
            placed = super_id and await self._pool.is_placed(key, pods.namespace, super_id)
        except KubeError as error:
            _log.warning("the pool cannot be read", error=str(error))
            raise super_pods.pool_unknown() from error
        return key if placed else ""

    async def _link(self, super_id: str, refused: bytes = b"") -> _Link:
        """Return the way to a super cluster, by its stored credentials.

        Args:
            super_id: Id of the super cluster.
            refused: Credentials that it has just refused.
        """
        async with self._locks[super_id]:
            link, now = self._links.get(super_id), self._clock()
            if link is not None and now - link.read_at < REREAD_SECONDS and link.kubeconfig != refused:
                return link
            try:
                kubeconfig = await self._pool.kubeconfig(super_id)
                if link is None or kubeconfig != link.kubeconfig:
                    link = await self._replace(super_id, kubeconfig)
            except KubeError as error:
                _log.warning("credentials cannot be read", super_cluster=super_id, error=str(error))
                if link is None:
                    raise super_pods.pool_unknown() from error
            if link is not None:
                link.read_at = now
        if link is None:
            _log.warning(
                "a super cluster has no credentials for logs and exec; run 'vcsync super renew'",
                super_cluster=super_id,
            )
            raise refusals.not_permitted(super_id)
        return link

    async def _replace(self, super_id: str, kubeconfig: bytes | None) -> _Link | None:
        connection = Connection.from_kubeconfig_bytes(kubeconfig) if kubeconfig is not None else None
        await self._retire(super_id)
        if kubeconfig is None or connection is None:
            return None
        client = Client(connection, name=super_id, timeout=CONNECT_SECONDS)
        made = self._links[super_id] = _Link(kubeconfig, connection, client, self._clock())
        return made

    async def _retire(self, super_id: str) -> None:
        """Use a link for no new requests, and close links that no request uses any more."""
        link, now = self._links.pop(super_id, None), self._clock()
        ended = [each for each in self._retired if now - each.read_at > 2 * REREAD_SECONDS]
        self._retired = [each for each in self._retired if each not in ended]
        if link is not None:
            self._retired.append(link)
            link.read_at = now
        for each in ended:
            await each.client.close()

    async def _connected(self, link: _Link, pods: TenantPods, asked: StreamRequest, key: str) -> Dialled:
        """Connect while the super cluster is asked for the Pod, which must be the copy of the tenant's Pod."""
        dialling = asyncio.create_task(dialled(link.connection, asked.super_id))
        connected = None
        try:
            accepted = await self._found(link, pods, asked, key)
            if accepted is link:
                connected = await dialling
                return connected
        finally:
            if connected is None:
                await _discard(dialling)
        # The credentials were replaced meanwhile.
        return await dialled(accepted.connection, asked.super_id)

    async def _found(self, link: _Link, pods: TenantPods, asked: StreamRequest, key: str) -> _Link:
        """Check that the super cluster has the copy of the tenant's Pod; return the way whose credentials are accepted."""
        namespace = names.super_namespace(key, pods.namespace)
        try:
            link, copy = await self._called(
                link, asked.super_id, lambda client: client.get(PODS, asked.pod, namespace)
            )
        except NotFound:
            raise refusals.not_there(asked.pod) from None
        except (Unauthorized, Forbidden) as error:
            _log.warning("a super cluster refuses streams", super_cluster=asked.super_id, error=str(error))
            raise refusals.not_permitted(asked.super_id) from error
        except ApiError as error:
            status = error.status
            raise refusals.refusal(asked.super_id, status.code, status.message, asked.pod) from error
        except KubeError as error:
            _log.warning("a super cluster cannot be reached", super_cluster=asked.super_id, error=str(error))
            raise refusals.unreachable(asked.super_id) from error
        if not super_pods.is_copy(copy.annotations, key, pods.namespace, asked.uid):
            raise refusals.not_there(asked.pod)
        return link

    async def _called(
        self, link: _Link, super_id: str, call: Callable[[Client], Awaitable[_T]]
    ) -> tuple[_Link, _T]:
        """Call a super cluster, once more if there are newer credentials than those that it refuses.

        Returns:
            The way whose credentials are accepted, and the result.
        """
        try:
            return link, await call(link.client)
        except Unauthorized:
            newer = await self._link(super_id, link.kubeconfig)
            if newer is link:
                raise
            return newer, await call(newer.client)


async def _discard(dialling: asyncio.Task[Dialled]) -> None:
    """Close a connection that is being opened, or is open, and has no use."""
    dialling.cancel()
    [done] = await asyncio.gather(dialling, return_exceptions=True)
    if not isinstance(done, BaseException):
        _, writer, _ = done
        writer.transport.abort()


class _Deadline:
    """Raises `error` if its block takes longer than `CONNECT_SECONDS`."""

    def __init__(self) -> None:
        self.error: Exception = super_pods.pool_unknown()
        self._timeout = asyncio.timeout(CONNECT_SECONDS)

    async def __aenter__(self) -> "_Deadline":
        await self._timeout.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        try:
            await self._timeout.__aexit__(*raised)  # type: ignore[arg-type]
        except TimeoutError:
            raise self.error from None
