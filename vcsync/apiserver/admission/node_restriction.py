"""NodeRestriction: nodes may write only their own Node, mirror Pods, Pod status, Pod tokens and Lease.

The Node authorizer has allowed the request before.

Source: Kubernetes' `plugin/pkg/admission/noderestriction`.
"""

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from vcsync.apimachinery import errors
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.plugin import Lookup, refusal
from vcsync.apiserver.admission.mirror_pods import reference_of
from vcsync.apiserver.admission.pod_audiences import Volumes
from vcsync.apiserver.authorization import node_graph, nodes
from vcsync.apiserver.request.caller import Attributes, Decision, quoted
from vcsync.apiserver.request.scope import Admission

Decide = Callable[[Any, Attributes], Awaitable[Decision]]
"""Authorizes a caller: (caller, attributes of the request) -> decision."""

_RESTRICTED = "node-restriction.kubernetes.io"
_KUBERNETES = ("kubernetes.io", "k8s.io")
_OWN_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)
_OWN_LABEL_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_NODE_SIGNERS = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")
_OF_CLAIM_STATUS = ("capacity", "conditions", "allocatedResourceStatuses", "allocatedResources")
_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE"})


class NodeRestriction:
    """A plug-in that restricts writes of nodes.

    Args:
        decide: Authorizes token requests for audiences that no volume names.
    """

    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._checks: Mapping[tuple[str, str], Callable[[str, Admission, Lookup], Awaitable[None]]] = {
            ("", "pods"): _pod,
            ("", "nodes"): _node,
            ("", "persistentvolumeclaims"): _claim,
            ("", "serviceaccounts"): self._account,
            ("coordination.k8s.io", "leases"): _lease,
            ("storage.k8s.io", "csinodes"): _csi_node,
            ("resource.k8s.io", "resourceslices"): _slice,
            ("certificates.k8s.io", "certificatesigningrequests"): _signing_request,
        }

    async def __call__(self, admission: Admission, lookup: Lookup) -> None:
        """Refuse writes of a node that concern other nodes or their Pods.

        Raises:
            StatusError: 403; 404, a referenced object does not exist.
        """
        caller = admission.scope.caller
        node = nodes.node_of(caller.user) if caller is not None else None
        if node is None or admission.operation not in _OPERATIONS:
            return
        if not node:
            raise refusal(admission, f"could not determine node from user {quoted(caller.user.name)}")
        resource = admission.scope.kind.resource
        check = self._checks.get((resource.group, resource.plural))
        if check is not None:
            await check(node, admission, lookup)

    async def _account(self, node: str, admission: Admission, lookup: Lookup) -> None:
        if admission.operation != "CREATE" or admission.scope.subresource != "token":
            return
        spec = (admission.new or {}).get("spec") or {}
        bound = spec.get("boundObjectRef") or {}
        if bound.get("apiVersion") != "v1" or bound.get("kind") != "Pod" or not bound.get("name"):
            raise refusal(admission, "node requested token not bound to a pod")
        uid = bound.get("uid") or ""
        if not uid:
            raise refusal(admission, "node requested token with a pod binding without a uid")
        pod = await _existing(admission, lookup, bound["name"])
        if pod["metadata"].get("uid") != uid:
            raise refusal(
                admission,
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        if node_graph.node_of_pod(pod) != node:
            raise refusal(admission, "node requested token bound to a pod scheduled on a different node")
        await self._check_audience(admission, lookup, spec.get("audiences") or [], pod)

    async def _check_audience(
        self, admission: Admission, lookup: Lookup, audiences: list[str], pod: Object
    ) -> None:
        if len(audiences) > 1:
            raise refusal(admission, "node may only request 0 or 1 audiences")
        audience = audiences[0] if audiences else ""
        scope = admission.scope
        volumes = Volumes(lookup, scope.tenant, pod)
        if await volumes.need_token_for(audience):
            return
        if volumes.problems:
            why = volumes.problems[0] if len(volumes.problems) == 1 else f"[{', '.join(volumes.problems)}]"
            raise refusal(admission, f"error validating audience {quoted(audience)}: {why}")
        asked = Attributes(
            "request-serviceaccounts-token-audience",
            version="v1",
            resource=audience,
            namespace=scope.namespace,
            name=scope.name,
        )
        if not (await self._decide(scope.caller, asked)).allowed:
            raise refusal(
                admission,
                f"audience {quoted(audience)} not found in pod spec volume, {scope.caller.user.name} is not "
                "authorized to request tokens for this audience",
            )


async def _existing(admission: Admission, lookup: Lookup, name: str) -> Object:
    scope = admission.scope
    pod = await lookup.get(scope.tenant, "", "pods", name, scope.namespace)
    if pod is None:
        raise errors.not_found("pod", "", name)
    return pod


async def _pod(node: str, admission: Admission, lookup: Lookup) -> None:
    subresource, operation, name = admission.scope.subresource, admission.operation, quoted(node)
    if subresource == "status":
        _pod_status(node, admission)
    elif subresource == "eviction":
        if operation != "CREATE":
            raise refusal(admission, f"unexpected operation {operation}")
        pod = await _existing(admission, lookup, admission.scope.name)
        if node_graph.node_of_pod(pod) != node:
            raise refusal(admission, f"node {node} can only evict pods with spec.nodeName set to itself")
    elif subresource:
        raise refusal(
            admission,
            f"unexpected pod subresource {quoted(subresource)}, only 'status' and 'eviction' are allowed",
        )
    elif operation == "CREATE":
        await _mirror(node, admission, lookup)
    elif operation == "DELETE":
        if node_graph.node_of_pod(admission.old or {}) != node:
            raise refusal(admission, f"node {name} can only delete pods with spec.nodeName set to itself")
    else:
        raise refusal(
            admission,
            f"unexpected operation {quoted(operation)}, node {name} can only create and delete mirror pods",
        )


async def _mirror(node: str, admission: Admission, lookup: Lookup) -> None:
    pod, name = admission.new or {}, quoted(node)
    if not node_graph.is_mirror(pod):
        raise refusal(
            admission,
            f"pod does not have {quoted(node_graph.MIRROR)} annotation, node {name} can only create mirror pods",
        )
    if node_graph.node_of_pod(pod) != node:
        raise refusal(admission, f"node {name} can only create pods with spec.nodeName set to itself")
    owners = pod["metadata"].get("ownerReferences") or []
    problem = _owner_problem(node, owners)
    if problem:
        raise refusal(admission, f"node {name} {problem}")
    found = await lookup.get(admission.scope.tenant, "", "nodes", node)
    if found is None:
        raise errors.not_found("node", "", node)
    uid, wanted = owners[0].get("uid") or "", found["metadata"].get("uid")
    if uid != wanted:
        raise refusal(admission, f"node {node} UID mismatch: expected {uid} got {wanted}")
    referenced = reference_of(pod)
    if referenced:
        raise refusal(admission, f"node {name} can not create pods that reference {referenced}")


def _owner_problem(node: str, owners: list[Object]) -> str:
    """Return why the owner references of a mirror Pod are refused, or an empty text."""
    only = "can only create pods with"
    if len(owners) > 1:
        return f"{only} a single owner reference set to itself"
    owner = owners[0] if owners else {}
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
        return f"{only} an owner reference set to itself"
    if not owner.get("controller"):
        return f"{only} a controller owner reference set to itself"
    if owner.get("blockOwnerDeletion"):
        return "must not set blockOwnerDeletion on an owner reference"
    return ""


def _pod_status(node: str, admission: Admission) -> None:
    new, old, name = admission.new or {}, admission.old or {}, quoted(node)
    if admission.operation != "UPDATE":
        raise refusal(admission, f"unexpected operation {quoted(admission.operation)}")
    if node_graph.node_of_pod(old) != node:
        words = "can only update pod status for pods with spec.nodeName set to itself"
        raise refusal(admission, f"node {name} {words}")
    if (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
        raise refusal(admission, f"node {name} cannot update labels through pod status")
    for field, words in (
        ("resourceClaimStatuses", "resource claim statues"),
        ("extendedResourceClaimStatus", "extended resource claim status"),
    ):
        if (node_graph.at(new, "status", field) or None) != (node_graph.at(old, "status", field) or None):
            raise refusal(admission, f"node {name} cannot update {words}")


async def _node(node: str, admission: Admission, _: Lookup) -> None:
    new, old, name = admission.new or {}, admission.old or {}, quoted(node)
    if admission.name != node:
        raise refusal(admission, f"node {name} is not allowed to modify node {quoted(admission.name)}")
    if admission.operation == "DELETE":
        return
    source = node_graph.at(new, "spec", "configSource")
    labels, before = ({**(each.get("metadata", {}).get("labels") or {})} for each in (new, old))
    changed = {key for key in {*labels, *before} if labels.get(key) != before.get(key)}
    forbidden = ", ".join(sorted(filter(_is_forbidden, changed)))
    if admission.operation == "CREATE":
        if source is not None:
            raise refusal(admission, f"node {name} is not allowed to create pods with a non-nil configSource")
        if forbidden:
            raise refusal(admission, f"node {name} is not allowed to set the following labels: {forbidden}")
        return
    if source is not None and source != node_graph.at(old, "spec", "configSource"):
        raise refusal(
            admission, f"node {name} is not allowed to update configSource to a new non-nil configSource"
        )
    for path, words in ((("spec", "taints"), "taints"), (("metadata", "ownerReferences"), "ownerReferences")):
        if (node_graph.at(new, *path) or None) != (node_graph.at(old, *path) or None):
            raise refusal(admission, f"node {name} is not allowed to modify {words}")
    if forbidden:
        raise refusal(admission, f"is not allowed to modify labels: {forbidden}")


def _is_forbidden(label: str) -> bool:
    """Return whether a node must not change a label.

    Nodes must not change reserved labels, nor labels of Kubernetes except those that kubelets set.
    """
    domain, slash, _ = label.partition("/")
    if not slash:
        return False
    if _within(domain, _RESTRICTED):
        return True
    own = label in _OWN_LABELS or any(_within(domain, each) for each in _OWN_LABEL_DOMAINS)
    return any(_within(domain, each) for each in _KUBERNETES) and not own


def _within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


async def _claim(node: str, admission: Admission, _: Lookup) -> None:
    if admission.scope.subresource != "status":
        raise refusal(admission, "may only update PVC status")
    if admission.operation != "UPDATE":
        raise refusal(admission, f"unexpected operation {quoted(admission.operation)}")
    if _claim_but_status(admission.new or {}) != _claim_but_status(admission.old or {}):
        raise refusal(
            admission,
            f"node {quoted(node)} is not allowed to update fields other than status.quantity and status.conditions",
        )


def _claim_but_status(claim: Object) -> Object:
    metadata = {
        key: each
        for key, each in claim.get("metadata", {}).items()
        if key not in ("resourceVersion", "managedFields")
    }
    status = {key: each for key, each in (claim.get("status") or {}).items() if key not in _OF_CLAIM_STATUS}
    return {**claim, "metadata": metadata, "status": status}


async def _lease(node: str, admission: Admission, _: Lookup) -> None:
    if admission.scope.namespace != nodes.LEASES:
        raise refusal(admission, f'can only access leases in the "{nodes.LEASES}" system namespace')
    if admission.name != node:
        raise refusal(admission, "can only access node lease with the same name as the requesting node")


async def _csi_node(node: str, admission: Admission, _: Lookup) -> None:
    if admission.name != node:
        raise refusal(admission, "can only access CSINode with the same name as the requesting node")


async def _slice(node: str, admission: Admission, _: Lookup) -> None:
    verb = {"CREATE": "create", "DELETE": "delete"}.get(admission.operation)
    obj = admission.new if admission.operation == "CREATE" else admission.old
    if verb and node_graph.at(obj, "spec", "nodeName") != node:
        raise refusal(
            admission, f"can only {verb} ResourceSlice with the same NodeName as the requesting node"
        )


async def _signing_request(node: str, admission: Admission, _: Lookup) -> None:
    spec = (admission.new or {}).get("spec") or {}
    if admission.operation != "CREATE" or spec.get("signerName") not in _NODE_SIGNERS:
        return
    try:
        request = x509.load_pem_x509_csr(base64.b64decode(spec.get("request") or ""))
    except ValueError as error:
        raise refusal(admission, f"unable to parse csr: {error}") from error
    names = [each.value for each in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not names or names[-1] != f"{nodes.PREFIX}{node}":
        raise refusal(admission, f"can only create a node CSR with CN={nodes.PREFIX}{node}")
