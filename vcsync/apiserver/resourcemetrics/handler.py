"""Answers requests for PodMetrics and NodeMetrics of a tenant.

Behaviour: metrics-server's `pkg/api/{pod,node}.go`. A Pod or node without known usage is left out of lists. The usage of a node
is that of the tenant's own Pods on it, since a tenant learns nothing about others.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from vcsync.api import names
from vcsync.apimachinery import errors
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.wire import negotiation
from vcsync.apiserver.discovery.served import Spaces
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.kubelets.super_clusters import TenantPods
from vcsync.apiserver.registry.reading import Reader
from vcsync.apiserver.registry.selection import selection
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.options import ListOptions
from vcsync.apiserver.request.reply import Reply
from vcsync.apiserver.request.request_info import RequestInfo
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.request.selectors import NOTHING
from vcsync.apiserver.resourcemetrics.pod_usage import PodUsage
from vcsync.apiserver.storage.interface import Record
from vcsync.process.loop_turns import turn
from vcsync.resourcemetrics import documents
from vcsync.resourcemetrics.documents import Described, Usage
from vcsync.resourcemetrics.version import GROUP, VERSION, resource_list
from vcsync.tenancy.proof import IDENTITY_NAMESPACE

PODS, NODES, NAMESPACES = "pods", "nodes", "namespaces"
KINDS = {PODS: "PodMetrics", NODES: "NodeMetrics"}
PATH = f"/apis/{GROUP}/{VERSION}"
TURN_OBJECTS = 100
"""Objects to decode before the event loop runs other tasks."""
MOST_PLACES = 1000
"""Pairs of namespace and super cluster that one request reads. A tenant may name any number by the nodes of its Pods."""
Simulated = Callable[[bytes], Usage | None]
"""Returns the usage of a Pod that no real node runs, from the stored Pod; None: a real node runs it, or it does not run."""


class _Spec(Struct, rename="camel"):
    node_name: str = ""


class _Pod(Struct):
    metadata: Described
    spec: _Spec = field(default_factory=_Spec)

    @property
    def super_id(self) -> str:
        """Id of the super cluster that the node's name names. Empty: none."""
        return names.super_cluster_of_node(self.spec.node_name)


class _Node(Struct):
    metadata: Described


class _Identified(Struct):
    uid: str = ""


class _Namespace(Struct):
    metadata: _Identified = field(default_factory=_Identified)


class ResourceMetrics:
    """Serves the resource metrics API of tenants.

    Args:
        reader: Reads Pods, Nodes and Namespaces.
        spaces: Finds their kinds.
        usage: Reads usage from super clusters.
        now: Returns the time in RFC 3339 form.
        simulated: Returns the usage of Pods of hollow nodes.
    """

    def __init__(
        self, reader: Reader, spaces: Spaces, usage: PodUsage, now: Callable[[], str], simulated: Simulated
    ) -> None:
        self._reader = reader
        self._spaces = spaces
        self._usage = usage
        self._now = now
        self._simulated = simulated

    def serves(self, tenant: str, info: RequestInfo) -> bool:
        """Tell whether a request is one for this API of a tenant, and the tenant has no server of its own for it."""
        if info.resource_request:
            asked = (info.prefix, info.group, info.version) == ("apis", GROUP, VERSION)
        else:
            asked = info.path.rstrip("/") == PATH
        return asked and self._spaces.serves_metrics(tenant)

    async def answer(self, incoming: Incoming, info: RequestInfo, tenant: str, caller: Caller) -> Reply:
        """Answer a request.

        Raises:
            StatusError: 404, 405, or 400 for an invalid selector; 503 if the pool cannot be read.
        """
        if not info.resource_request:
            if incoming.method != "GET":
                raise errors.method_not_allowed()
            return Reply(200, [resource_list()])
        kind = KINDS.get(info.resource)
        if kind is None or info.subresource or (info.resource == NODES and info.namespace):
            raise errors.page_not_found()
        if info.verb not in ("get", "list") or incoming.method != "GET":
            raise errors.method_not_allowed()
        negotiation.plain_json(incoming.headers.get("Accept", ""))
        found = await (self._pods if info.resource == PODS else self._nodes)(info, tenant, caller)
        if info.verb == "list":
            return Reply(200, [documents.many(kind, found)])
        if not found:
            raise errors.not_found(info.resource, GROUP, "/".join(filter(None, (info.namespace, info.name))))
        return Reply(200, [documents.one(kind, found[0])])

    async def _pods(self, info: RequestInfo, tenant: str, caller: Caller) -> Sequence[Mapping[str, Any]]:
        now = self._now()
        measured = await self._measured(await self._records(info, PODS, tenant, caller), tenant, caller)
        return [documents.pod_metrics(pod.metadata, usage, now) for pod, usage in measured]

    async def _nodes(self, info: RequestInfo, tenant: str, caller: Caller) -> Sequence[Mapping[str, Any]]:
        now = self._now()
        nodes = [
            msgspec.json.decode(each.value, type=_Node).metadata
            for each in await self._records(info, NODES, tenant, caller)
        ]
        wanted = {each.name for each in nodes}
        everywhere = RequestInfo("list", "")
        pods = await self._records(everywhere, PODS, tenant, caller)
        by_node: dict[str, list[Usage]] = defaultdict(list)
        for pod, usage in await self._measured(pods, tenant, caller, wanted):
            by_node[pod.spec.node_name].append(usage)
        return [documents.node_metrics(node, by_node.get(node.name, ()), now) for node in nodes]

    async def _records(self, info: RequestInfo, plural: str, tenant: str, caller: Caller) -> list[Record]:
        """Read the objects of a tenant that a request for their metrics names or selects."""
        scope = self._scope(plural, tenant, caller, info.namespace, info.name)
        chosen = selection(scope.kind, info.selectors or NOTHING, info.name)
        listed = await self._reader.collection(scope, ListOptions(), chosen)
        await listed.whole()
        return listed.records

    async def _measured(
        self, records: Iterable[Record], tenant: str, caller: Caller, nodes: set[str] | None = None
    ) -> list[tuple[_Pod, Usage]]:
        """Return the Pods whose usage is known.

        Args:
            records: Pods.
            tenant: Name of the tenant.
            caller: Whom the Pods are read for.
            nodes: Names of the nodes whose Pods are wanted. None: all.
        """
        pods: list[tuple[_Pod, bytes]] = []
        for at, each in enumerate(records):
            pod = msgspec.json.decode(each.value, type=_Pod)
            if nodes is None or pod.spec.node_name in nodes:
                pods.append((pod, each.value))
            if at % TURN_OBJECTS == 0:
                await turn()
        control_plane = await self._control_plane(tenant, caller)
        named = {(pod.metadata.namespace, pod.super_id) for pod, _ in pods if pod.super_id}
        places = sorted(named)[:MOST_PLACES]
        known = await self._read(tenant, control_plane, places)
        found = []
        for pod, value in pods:
            read = known.get((pod.metadata.namespace, pod.super_id))
            here = not pod.super_id
            usage = self._simulated(value) if here else (read or {}).get(pod.metadata.name)
            if usage is not None:
                found.append((pod, usage))
        return found

    async def _read(
        self, tenant: str, control_plane: str, places: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], Mapping[str, Usage]]:
        """Return the usage of Pods by name, for each namespace and super cluster."""
        try:
            async with asyncio.TaskGroup() as tasks:
                reads = {
                    (namespace, super_id): tasks.create_task(
                        self._usage.of(TenantPods(tenant, control_plane, namespace), super_id)
                    )
                    for namespace, super_id in places
                }
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        return {place: read.result() for place, read in reads.items()}

    async def _control_plane(self, tenant: str, caller: Caller) -> str:
        scope = self._scope(NAMESPACES, tenant, caller, "", IDENTITY_NAMESPACE)
        record = await self._reader.get(scope)
        return msgspec.json.decode(record.value, type=_Namespace).metadata.uid

    def _scope(self, plural: str, tenant: str, caller: Caller, namespace: str, name: str) -> Scope:
        kind = self._spaces.kind(tenant, "", "v1", plural)
        if kind is None:
            raise errors.page_not_found()
        context = Context(tenant, caller.user, self._now())
        return Scope(tenant, kind, context, namespace, name, caller=caller)
