"""NodeRestriction: nodes may write only their own objects."""

import base64
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.admission.node_restriction import NodeRestriction
from vcsync.apiserver.request.caller import Attributes, Caller, Decision
from vcsync.apiserver.request.scope import Admission

MIRROR = {"kubernetes.io/config.mirror": "x"}
OWN = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": True}
POD = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "up"}


def signing(name: str) -> dict[str, Any]:
    """Return a certificate request of a node with this common name."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    encoded = base64.b64encode(request.public_bytes(Encoding.PEM)).decode()
    return {"spec": {"signerName": "kubernetes.io/kube-apiserver-client-kubelet", "request": encoded}}


class Objects:
    """Objects of the tenant by plural and name."""

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


async def decide(_: Any, attributes: Attributes) -> Decision:
    return Decision(
        attributes.verb == "request-serviceaccounts-token-audience" and attributes.resource == "granted"
    )


async def refused(
    path: str,
    operation: Any,
    new: Any = None,
    old: Any = None,
    *,
    namespace: str = "a",
    user: str = "n1",
    objects: Objects | None = None,
) -> str:
    """Return why a write of a node is refused, or an empty text. `path`: group/plural/name[/subresource]."""
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
        await NodeRestriction(decide)(
            Admission(scope, operation, name, new, old, False),
            objects or Objects(),  # type: ignore[arg-type]
        )
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
        (
            "/persistentvolumeclaims/c/status",
            "UPDATE",
            {"metadata": {"name": "c", "managedFields": [1], "resourceVersion": "2"}},
            {"metadata": {"name": "c", "managedFields": [], "resourceVersion": "1"}},
            "",
        ),
        (
            "certificates.k8s.io/certificatesigningrequests/r",
            "CREATE",
            signing("system:node:n2"),
            None,
            "can only create a node CSR with CN=system:node:n1",
        ),
        ("certificates.k8s.io/certificatesigningrequests/r", "CREATE", signing("system:node:n1"), None, ""),
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
        (
            "/persistentvolumeclaims/c/status",
            "UPDATE",
            {"metadata": {}, "status": {"phase": "Lost", "capacity": 1}},
            {"metadata": {}, "status": {"phase": "Bound", "capacity": 1}},
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
async def test_nodes_may_write_only_their_own_objects(
    path: str, operation: str, new: Any, old: Any, why: str
) -> None:
    refusal = await refused(path, operation, new, old)
    assert why in refusal if why else not refusal


async def test_users_of_the_nodes_group_without_a_node_name_are_refused() -> None:
    assert "could not determine node" in await refused("/configmaps/c", "CREATE", {}, user="")


async def test_mirror_pods_need_an_existing_node() -> None:
    objects = Objects()
    del objects._found["nodes/n1"]
    assert await refused("/pods/m", "CREATE", pod(), objects=objects) == 'node "n1" not found'


async def test_nodes_may_write_only_their_own_lease() -> None:
    assert not await refused("coordination.k8s.io/leases/n1", "UPDATE", {}, {}, namespace="kube-node-lease")
    refusal = await refused("coordination.k8s.io/leases/n2", "UPDATE", {}, {}, namespace="kube-node-lease")
    assert "same name" in refusal
