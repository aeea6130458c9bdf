"""Nodes write themselves and what runs on them, and nothing else."""

from types import SimpleNamespace
from typing import Any

import pytest

from vcsync.controlplane.admission.node_restriction import NodeRestriction
from vcsync.controlplane.behaviour import User
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.identity.caller import Attributes, Caller, Decision
from vcsync.controlplane.rest.scope import Admission

MIRROR = {"kubernetes.io/config.mirror": "x"}
OWN = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": True}
POD = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "up"}


class Objects:
    """What there is, by plural and name."""

    def __init__(self) -> None:
        self._found = {
            "nodes/n1": {"metadata": {"uid": "u1"}},
            "pods/p": {
                "metadata": {"name": "p", "namespace": "a", "uid": "up"},
                "spec": {
                    "nodeName": "n1",
                    "volumes": [
                        {"projected": {"sources": [{"serviceAccountToken": {"audience": "vault"}}]}},
                        {"persistentVolumeClaim": {"claimName": "c"}},
                    ],
                },
            },
            "pods/q": {"metadata": {"uid": "uq"}, "spec": {"nodeName": "n2"}},
            "persistentvolumeclaims/c": {"spec": {"volumeName": "v"}},
            "persistentvolumes/v": {"spec": {"csi": {"driver": "d"}}},
            "csidrivers/d": {"spec": {"tokenRequests": [{"audience": "disk"}]}},
        }

    async def get(self, tenant: str, group: str, plural: str, name: str, namespace: str = "") -> Any:
        return self._found.get(f"{plural}/{name}")


async def decide(_: Any, asked: Attributes) -> Decision:
    return Decision(asked.verb == "request-serviceaccounts-token-audience" and asked.resource == "granted")


async def refused(
    path: str, operation: Any, new: Any = None, old: Any = None, *, namespace: str = "a", user: str = "n1"
) -> str:
    """Return why a node's write is refused; empty: it is not. `path`: group/plural/name[/subresource]."""
    group, plural, name, subresource = (*path.split("/"), "")[:4]
    resource = SimpleNamespace(group=group, version="v1", plural=plural)
    caller = Caller(User(f"system:node:{user}", groups=("system:nodes",)), "acme")
    scope: Any = SimpleNamespace(
        tenant="acme",
        kind=SimpleNamespace(resource=resource),
        namespace=namespace,
        name=name,
        subresource=subresource,
        caller=caller,
    )
    try:
        await NodeRestriction(decide)(Admission(scope, operation, name, new, old, False), Objects())  # type: ignore[arg-type]
    except StatusError as error:
        return error.message
    return ""


def pod(node: str = "n1", owners: Any = (OWN,), **spec: Any) -> dict[str, Any]:
    metadata = {"name": "m", "annotations": MIRROR, "ownerReferences": list(owners)}
    return {"metadata": metadata, "spec": {"nodeName": node, **spec}}


def token(*audiences: str, **bound: Any) -> dict[str, Any]:
    return {"spec": {"audiences": list(audiences), "boundObjectRef": {**POD, **bound}}}


def node(labels: Any = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n1", "labels": labels or {}}, "spec": spec}


def status(**changes: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {}}, "spec": {"nodeName": "n1"}, "status": {}, **changes}


@pytest.mark.parametrize(
    ("path", "operation", "new", "old", "why"),
    [
        ("/pods/m", "CREATE", pod(), None, ""),
        ("/pods/m", "CREATE", pod("n2"), None, "spec.nodeName set to itself"),
        ("/pods/m", "CREATE", {"metadata": {}, "spec": {"nodeName": "n1"}}, None, "only create mirror pods"),
        ("/pods/m", "CREATE", pod(owners=()), None, "an owner reference set to itself"),
        ("/pods/m", "CREATE", pod(owners=(OWN, OWN)), None, "a single owner reference"),
        ("/pods/m", "CREATE", pod(owners=({**OWN, "uid": "u2"},)), None, "UID mismatch"),
        ("/pods/m", "CREATE", pod(owners=({**OWN, "controller": False},)), None, "a controller owner"),
        ("/pods/m", "CREATE", pod(owners=({**OWN, "blockOwnerDeletion": True},)), None, "blockOwnerDeletion"),
        ("/pods/m", "CREATE", pod(serviceAccountName="x"), None, "reference serviceaccounts"),
        ("/pods/m", "CREATE", pod(volumes=[{"secret": {}}]), None, "secrets (via secret volumes)"),
        ("/pods/m", "CREATE", pod(volumes=[{"hostPath": {}}]), None, ""),
        ("/pods/m", "CREATE", pod(resourceClaims=[{}]), None, "reference resourceclaims"),
        ("/pods/p", "UPDATE", status(), status(), "can only create and delete mirror pods"),
        ("/pods/p", "DELETE", None, pod(), ""),
        ("/pods/q", "DELETE", None, pod("n2"), "only delete pods with spec.nodeName"),
        ("/pods/p/status", "UPDATE", status(), status(), ""),
        ("/pods/p/status", "UPDATE", status(metadata={"labels": {"a": "b"}}), status(), "update labels"),
        ("/pods/p/status", "UPDATE", status(), status(spec={"nodeName": "n2"}), "only update pod status"),
        (
            "/pods/p/status",
            "UPDATE",
            status(status={"resourceClaimStatuses": [{"name": "x"}]}),
            status(),
            "resource claim statues",
        ),
        ("/pods/p/eviction", "CREATE", {}, None, ""),
        ("/pods/q/eviction", "CREATE", {}, None, "only evict pods"),
        ("/pods/gone/eviction", "CREATE", {}, None, "not found"),
        ("/pods/p/binding", "CREATE", {}, None, "unexpected pod subresource"),
        ("/nodes/n1", "CREATE", node({"kubernetes.io/os": "linux", "a": "b"}), None, ""),
        ("/nodes/n2", "CREATE", node(), None, 'not allowed to modify node "n2"'),
        ("/nodes/n1", "CREATE", node({"x.node-restriction.kubernetes.io/a": "b"}), None, "following labels"),
        ("/nodes/n1", "UPDATE", node({"k8s.io/a": "b"}), node(), "modify labels: k8s.io/a"),
        ("/nodes/n1", "UPDATE", node(), node({"kubernetes.io/hostname": "h"}), ""),
        ("/nodes/n1", "UPDATE", node(taints=[{}]), node(), "modify taints"),
        ("/nodes/n1", "UPDATE", node(configSource={}), node(), "configSource"),
        ("/nodes/n1", "DELETE", None, node(), ""),
        (
            "/persistentvolumeclaims/c/status",
            "UPDATE",
            {"metadata": {}, "status": {"capacity": 1}},
            {"metadata": {}},
            "",
        ),
        (
            "/persistentvolumeclaims/c/status",
            "UPDATE",
            {"metadata": {"labels": {}}},
            {"metadata": {}},
            "other than",
        ),
        ("/persistentvolumeclaims/c", "UPDATE", {}, {}, "may only update PVC status"),
        ("/serviceaccounts/s/token", "CREATE", token("vault"), None, ""),
        ("/serviceaccounts/s/token", "CREATE", token("disk"), None, ""),
        ("/serviceaccounts/s/token", "CREATE", token("granted"), None, ""),
        ("/serviceaccounts/s/token", "CREATE", token("bank"), None, "not found in pod spec volume"),
        ("/serviceaccounts/s/token", "CREATE", token("vault", "disk"), None, "0 or 1 audiences"),
        ("/serviceaccounts/s/token", "CREATE", token("vault", uid=""), None, "without a uid"),
        ("/serviceaccounts/s/token", "CREATE", token("vault", uid="x"), None, "does not match the UID"),
        ("/serviceaccounts/s/token", "CREATE", token("vault", name="q", uid="uq"), None, "different node"),
        ("/serviceaccounts/s/token", "CREATE", token("vault", kind="Secret"), None, "not bound to a pod"),
        ("coordination.k8s.io/leases/n1", "CREATE", {}, None, 'the "kube-node-lease" system namespace'),
        ("storage.k8s.io/csinodes/n1", "CREATE", {}, None, ""),
        ("storage.k8s.io/csinodes/n2", "UPDATE", {}, {}, "same name as the requesting node"),
        ("resource.k8s.io/resourceslices/s", "CREATE", {"spec": {"nodeName": "n1"}}, None, ""),
        ("resource.k8s.io/resourceslices/s", "CREATE", {"spec": {}}, None, "only create ResourceSlice"),
        ("resource.k8s.io/resourceslices/s", "DELETE", None, {"spec": {"nodeName": "n2"}}, "only delete"),
        ("/configmaps/c", "CREATE", {}, None, ""),
    ],
)
async def test_what_nodes_write(path: str, operation: str, new: Any, old: Any, why: str) -> None:
    told = await refused(path, operation, new, old)
    assert why in told if why else not told


async def test_a_node_without_a_name_writes_nothing() -> None:
    assert "could not determine node" in await refused("/configmaps/c", "CREATE", {}, user="")


async def test_leases_of_nodes() -> None:
    assert not await refused("coordination.k8s.io/leases/n1", "UPDATE", {}, {}, namespace="kube-node-lease")
    told = await refused("coordination.k8s.io/leases/n2", "UPDATE", {}, {}, namespace="kube-node-lease")
    assert "same name" in told
