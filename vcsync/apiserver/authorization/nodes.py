"""The Node authorizer: nodes may report on themselves and their Pods, and read objects that their Pods reference.

Behaviour: Kubernetes' `plugin/pkg/auth/authorizer/node`. Upstream keeps a graph; this authorizer searches the Pods of a node
at each request. The admission plug-in `node_restriction` further limits writes.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache

import msgspec

from vcsync.apimachinery.resources import collection_key, object_key
from vcsync.apimachinery.strategy import Object, User
from vcsync.apiserver.authorization import node_graph
from vcsync.apiserver.authorization.bootstrap import default_roles
from vcsync.apiserver.authorization.rbac import Rule, allows, parse_rules
from vcsync.apiserver.request.caller import Asked, Decision
from vcsync.apiserver.storage.interface import Store
from vcsync.objects.budget import Budget
from vcsync.process.loop_turns import rest

GROUP = "system:nodes"
PREFIX = "system:node:"
LEASES = "kube-node-lease"
PAGE = 500
BYTES_PER_STEP = 100
"""Bytes of a Pod that are searched or decoded in about a microsecond."""
_READ = frozenset({"get", "list", "watch"})
_OWN = frozenset({"get", "create", "update", "patch", "delete"})
_LIST = frozenset({"list", "watch"})
YES, NO = Decision(True), Decision(False)


def node_of(user: User) -> str | None:
    """Return the name of the node with a user name, which may be empty, or None if the user is not a node."""
    return user.name.removeprefix(PREFIX) if user.name.startswith(PREFIX) and GROUP in user.groups else None


@dataclass(frozen=True, slots=True)
class _Question:
    """A request of a node."""

    store: Store
    tenant: str
    node: str
    asked: Asked

    async def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        """Return an object of the tenant."""
        record, _ = await self.store.get(object_key(self.tenant, group, plural, namespace, name))
        found: Object | None = msgspec.json.decode(record.value) if record else None
        return found

    async def pods(self, *words: str) -> AsyncIterator[Object]:
        """Yield the Pods of the namespace that are bound to the node and contain these words. Mirror Pods are left out."""
        prefix, after = collection_key(self.tenant, "", "pods", self.asked.namespace), ""
        texts = [msgspec.json.encode(each) for each in (self.node, *words)]
        budget = Budget("the search of the Pods of a node")
        while True:
            page = await self.store.range(prefix, after=after, limit=PAGE)
            for record in page.records:
                budget.spend(1 + len(record.value) // BYTES_PER_STEP)
                await rest(budget)
                if not all(text in record.value for text in texts):
                    continue
                pod = msgspec.json.decode(record.value)
                if node_graph.node_of_pod(pod) == self.node and not node_graph.is_mirror(pod):
                    yield pod
            if not page.more:
                return
            after = page.records[-1].key

    def related(self, found: bool) -> Decision:
        """Return the decision: allowed if a relation between the node and the object was found."""
        return YES if found else _no(f"no relationship found between node '{self.node}' and this object")


_Answer = Callable[[_Question], Awaitable[Decision]]


def _no(reason: str) -> Decision:
    return Decision(False, reason)


@cache
def _rules() -> tuple[Rule, ...]:
    """Return the rules of all nodes for resources that do not depend on Pods."""
    return next(parse_rules(role.rules) for role in default_roles() if role.name == "system:node")


async def decide(store: Store, tenant: str, node: str, asked: Asked) -> Decision:
    """Decide a request of a node.

    Raises:
        StoreError: The store cannot be read.
    """
    if not node:
        return _no(f'unknown node for user "{PREFIX}"')
    answer = _ANSWERS.get((asked.group, asked.resource)) if asked.resource_request else None
    if answer is not None:
        return await answer(_Question(store, tenant, node, asked))
    return YES if any(allows(rule, asked) for rule in _rules()) else NO


async def _named(question: _Question) -> Decision:
    """Decide a request for a Secret or ConfigMap."""
    asked = question.asked
    if asked.verb not in _READ:
        return _no("can only read resources of this type")
    if asked.subresource:
        return _no("cannot read subresource")
    if not asked.namespace:
        return _no("can only read namespaced object of this type")
    return await _by_pods(question)


async def _one(question: _Question) -> Decision:
    """Decide a request for an object that may be read by name only."""
    if question.asked.verb != "get":
        return _no("can only get individual resources of this type")
    if question.asked.subresource:
        return _no("cannot get subresource")
    return await _by_pods(question)


async def _by_pods(question: _Question) -> Decision:
    asked = question.asked
    if not asked.name:
        return _no("No Object name found")
    named = node_graph.NAMED[asked.resource]
    # The claim of an ephemeral volume has a generated name that no field contains.
    words = () if asked.resource == "persistentvolumeclaims" else (asked.name,)
    async for pod in question.pods(*words):
        if asked.name in named(pod):
            return YES
    return question.related(asked.resource == "secrets" and await _of_volumes(question))


async def _of_volumes(question: _Question) -> bool:
    """Return whether a volume of a Pod needs a Secret of the Pod's namespace."""
    asked = question.asked
    seen: set[str] = set()
    async for pod in question.pods():
        for claim in node_graph.claims_of(pod):
            if claim in seen:
                continue
            seen.add(claim)
            volume = await _volume_of(question, claim)
            if volume and asked.name in node_graph.secrets_of_volume(volume):
                return True
    return False


async def _volume_of(question: _Question, claim: str) -> Object | None:
    """Return the PersistentVolume that is bound to a claim and refers to it."""
    namespace = question.asked.namespace
    found = await question.get("", "persistentvolumeclaims", namespace, claim)
    name = node_graph.at(found, "spec", "volumeName")
    volume = await question.get("", "persistentvolumes", "", name) if name else None
    reference = node_graph.at(volume, "spec", "claimRef") or {}
    return volume if (reference.get("namespace"), reference.get("name")) == (namespace, claim) else None


async def _claim(question: _Question) -> Decision:
    asked = question.asked
    if asked.subresource == "status":
        if asked.verb not in ("update", "patch"):
            return _no("can only get/update/patch this type")
        return await _by_pods(question)
    return await _one(question)


async def _volume(question: _Question) -> Decision:
    asked = question.asked
    if asked.verb != "get":
        return _no("can only get individual resources of this type")
    if asked.subresource:
        return _no("cannot get subresource")
    if not asked.name:
        return _no("No Object name found")
    found = await question.get("", "persistentvolumes", "", asked.name)
    reference = node_graph.at(found, "spec", "claimRef") or {}
    if not reference.get("namespace"):
        return question.related(False)
    within = _Question(question.store, question.tenant, question.node, _In(reference["namespace"]))
    async for pod in within.pods():
        if str(reference.get("name")) in node_graph.claims_of(pod):
            return YES
    return question.related(False)


@dataclass(frozen=True, slots=True)
class _In:
    """A request that matters only for its tenant and namespace."""

    namespace: str
    verb: str = "get"
    resource_request: bool = True
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    selected: tuple[tuple[str, str], ...] = ()


async def _attachment(question: _Question) -> Decision:
    if question.asked.verb != "get":
        return _no("can only get individual resources of this type")
    if question.asked.subresource:
        return _no("cannot get subresource")
    return await _assigned(question, "storage.k8s.io", "volumeattachments")


async def _assigned(question: _Question, group: str, plural: str, namespace: str = "") -> Decision:
    """Decide a request for an object that names the node in its spec."""
    if not question.asked.name:
        return _no("No Object name found")
    found = await question.get(group, plural, namespace, question.asked.name)
    return question.related(node_graph.at(found, "spec", "nodeName") == question.node)


async def _account(question: _Question) -> Decision:
    asked = question.asked
    if asked.verb == "get" and not asked.subresource:
        return await _named(question)
    if asked.verb != "create" or not asked.name:
        return _no("can only create tokens for individual service accounts")
    if asked.subresource != "token":
        return _no("can only create token subresource of serviceaccount")
    return await _by_pods(question)


async def _lease(question: _Question) -> Decision:
    asked = question.asked
    if asked.verb not in _OWN:
        return _no("can only get, create, update, patch, or delete a node lease")
    if asked.namespace != LEASES:
        return _no(f'can only access leases in the "{LEASES}" system namespace')
    if asked.verb != "create" and asked.name != question.node:
        return _no("can only access node lease with the same name as the requesting node")
    return YES


async def _csi_node(question: _Question) -> Decision:
    asked = question.asked
    if asked.verb not in _OWN:
        return _no("can only get, create, update, patch, or delete a CSINode")
    if asked.subresource:
        return _no("cannot authorize CSINode subresources")
    if asked.verb != "create" and asked.name != question.node:
        return _no("can only access CSINode with the same name as the requesting node")
    return YES


async def _slice(question: _Question) -> Decision:
    asked = question.asked
    if asked.subresource:
        return _no("cannot authorize ResourceSlice subresources")
    if asked.verb == "create":
        return YES
    if asked.verb in _OWN:
        return await _assigned(question, "resource.k8s.io", "resourceslices")
    if asked.verb in {*_LIST, "deletecollection"}:
        if ("spec.nodeName", question.node) in asked.selected:
            return YES
        return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")
    return _no(
        "only the following verbs are allowed for a ResourceSlice: "
        "get, watch, list, create, update, patch, delete, deletecollection"
    )


async def _certificate_request(question: _Question) -> Decision:
    asked = question.asked
    if asked.subresource:
        return _no("nodes may not access the status subresource of PodCertificateRequests")
    if asked.verb == "create":
        return YES
    if asked.verb == "get":
        return await _assigned(question, "certificates.k8s.io", "podcertificaterequests", asked.namespace)
    if asked.verb in _LIST:
        if ("spec.nodeName", question.node) in asked.selected:
            return YES
        return _no("can only list/watch podcertificaterequests with nodeName field selector")
    return _no(f"nodes may not {asked.verb} podcertificaterequests")


async def _node(question: _Question) -> Decision:
    asked, node = question.asked, question.node
    if asked.subresource == "status":
        return YES if asked.verb in ("update", "patch") else NO
    if asked.subresource:
        return NO
    if asked.verb in _READ:
        if asked.name == node:
            return YES
        target = f"'{asked.name}'" if asked.name else "all nodes"
        return _no(f"node '{node}' cannot read {target}, only its own Node object")
    return YES if asked.verb in ("create", "update", "patch") else NO


async def _pod(question: _Question) -> Decision:
    asked = question.asked
    if asked.subresource:
        allowed = {"status": ("update", "patch"), "eviction": ("create",)}.get(asked.subresource, ())
        return YES if asked.verb in allowed else NO
    if asked.verb not in _READ:
        return YES if asked.verb in ("create", "delete") else NO
    if asked.verb != "get" and ("spec.nodeName", question.node) in asked.selected:
        return YES
    if not asked.name:
        return _no("can only list/watch pods with spec.nodeName field selector")
    pod = await question.get("", "pods", asked.namespace, asked.name)
    return question.related(pod is not None and node_graph.node_of_pod(pod) == question.node)


_ANSWERS: Mapping[tuple[str, str], _Answer] = {
    ("", "secrets"): _named,
    ("", "configmaps"): _named,
    ("", "persistentvolumeclaims"): _claim,
    ("", "persistentvolumes"): _volume,
    ("", "serviceaccounts"): _account,
    ("", "nodes"): _node,
    ("", "pods"): _pod,
    ("resource.k8s.io", "resourceclaims"): _one,
    ("resource.k8s.io", "resourceslices"): _slice,
    ("storage.k8s.io", "volumeattachments"): _attachment,
    ("storage.k8s.io", "csinodes"): _csi_node,
    ("coordination.k8s.io", "leases"): _lease,
    ("certificates.k8s.io", "podcertificaterequests"): _certificate_request,
}
