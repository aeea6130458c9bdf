"""A user with few rights in a tenant: no role, certificate, token, owner, name or subresource gives it more."""

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from hack.attacks.client import Door
from hack.attacks.judge import problem
from hack.attacks.world import ATTACKER, World

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
DEFAULT = "/api/v1/namespaces/default"
GROUP = "rbac.authorization.k8s.io"
FORBIDDEN = frozenset({403})
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
ALL: list[dict[str, Any]] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
SECRETS: list[dict[str, Any]] = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
RIGHTS: list[dict[str, Any]] = [
    {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["get", "list", "create", "update", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["pods", "services", "nodes", "namespaces", "serviceaccounts", "configmaps"],
     "verbs": ["get", "list", "create", "update", "patch"]},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "create", "update", "patch"]},
    {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"],
     "verbs": ["get", "create", "update", "patch"]},
    {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval", "certificatesigningrequests/status"],
     "verbs": ["update", "patch"]},
    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get", "list", "watch", "delete"]},
]  # fmt: skip
"""What the user may: write roles, Pods and requests for certificates, and see one Secret."""
GRANTING = {
    "everything": ALL,
    "Secrets": SECRETS,
    "one Secret more": [{**SECRETS[0], "resourceNames": ["other"]}],
    "its one Secret, without a name": [{**SECRETS[0], "verbs": ["list"]}],
    "a wildcard verb on what it may read": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}],
    "a subresource": [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}],
    "all subresources": [{"apiGroups": [""], "resources": ["*/*"], "verbs": ["get"]}],
    "a path": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    "all paths": [{"nonResourceURLs": ["*"], "verbs": ["*"]}],
    "impersonation": [{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}],
    "escalation": [{"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["escalate"]}],
    "binding": [{"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["bind"]}],
    "all groups": [{"apiGroups": ["*"], "resources": ["pods"], "verbs": ["get"]}],
    "approval": [{"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["approve"]}],
}  # fmt: skip
SUBRESOURCES = {
    "a Pod's binding": ("POST", "{}/pods/own/binding", {"target": {"kind": "Node", "name": "n1"}}),
    "a binding": ("POST", "{}/bindings", {"metadata": {"name": "own"}, "target": {"kind": "Node", "name": "n1"}}),
    "a Pod's status": ("PATCH", "{}/pods/own/status", {"status": {"phase": "Failed"}}),
    "a Pod's eviction": ("POST", "{}/pods/own/eviction", {"metadata": {"name": "own"}}),
    "a Pod's size": ("PATCH", "{}/pods/own/resize", {"spec": {}}),
    "a Pod's ephemeral containers": ("PATCH", "{}/pods/own/ephemeralcontainers", {"spec": {"ephemeralContainers": []}}),
    "a Pod's log": ("GET", "{}/pods/own/log", None),
    "a Pod's shell": ("POST", "{}/pods/own/exec?command=sh", None),
    "a Pod's terminal": ("GET", "{}/pods/own/attach", None),
    "a Pod's ports": ("POST", "{}/pods/own/portforward", None),
    "a Pod's proxy": ("GET", "{}/pods/own/proxy/", None),
    "a Service's proxy": ("GET", "{}/services/kubernetes/proxy/", None),
    "a node's proxy": ("GET", "/api/v1/nodes/n1/proxy/", None),
    "a node's status": ("PATCH", "/api/v1/nodes/n1/status", {"status": {}}),
    "a namespace's status": ("PATCH", "/api/v1/namespaces/default/status", {"status": {}}),
    "a namespace's end": ("PUT", "/api/v1/namespaces/default/finalize", {"metadata": {"name": "default"}, "spec": {}}),
    "an account's token": ("POST", "{}/serviceaccounts/strong/token", {"spec": {}}),
    "a Deployment's scale": ("PATCH", "/apis/apps/v1/namespaces/default/deployments/x/scale", {"spec": {"replicas": 9}}),
    "a Deployment's status": ("PATCH", "/apis/apps/v1/namespaces/default/deployments/x/status", {"status": {}}),
    "a Secret by another's name": ("GET", "{}/secrets/other", None),
    "all Secrets": ("GET", "{}/secrets", None),
    "all Secrets, watching": ("GET", "{}/secrets?watch=1&timeoutSeconds=1", None),
    "all Secrets, by the old path": ("GET", "/api/v1/watch/namespaces/default/secrets", None),
    "the deletion of all Secrets": ("DELETE", "{}/secrets", None),
    "a deleted namespace": ("DELETE", "/api/v1/namespaces/default", None),
}  # fmt: skip
SELECTORS = (
    "metadata.name=mine", "metadata.name==mine", "metadata.name=mine,metadata.name=other", "metadata.name=other,metadata.name=mine",
    "metadata.name!=mine", "metadata.name=mine&fieldSelector=metadata.name=other", "metadata.name=other&fieldSelector=metadata.name=mine",
    "metadata.name%3Dmine%2Ctype%21%3Dx", "metadata.name=mine,", ",metadata.name=mine", "metadata.name=*", "metadata.name=mi%00ne",
    "metadata.name=%6dine&fieldSelector=", "metadata.name=mine&labelSelector=a!=b", "metadata.namespace=default,metadata.name=mine",
    "metadata.name%3d%3dmine&fieldselector=metadata.name=other", "metadata.name=mine\\,metadata.name=other",
)  # fmt: skip
MIMICS = (
    "apps",
    "k8s.io",
    "x.k8s.io",
    "rbac.authorization.k8s.io",
    "x.kubernetes.io",
    "",
    "apps.",
    "../v1",
    "API",
    "v1",
    "tenants",
)
"""Groups that a custom resource must not have without leave, or cannot have."""


@pytest.fixture(scope="module")
def lowly(world: World) -> Door:
    """A user with RIGHTS, and the targets of its attacks."""
    admin = world.attacker
    for place, body in (
        (ROLES, {"metadata": {"name": "lowly"}, "rules": RIGHTS}),
        (ROLES, {"metadata": {"name": "strong"}, "rules": ALL}),
        (ROLES, {"metadata": {"name": "own"}, "rules": []}),
        (
            ROLES,
            {
                "metadata": {"name": "collector"},
                "rules": [],
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"collect": "me"}}]},
            },
        ),
        (BINDINGS, binding("lowly", "lowly", "lowly")),
        (f"{DEFAULT}/secrets", {"metadata": {"name": "mine"}}),
        (f"{DEFAULT}/secrets", {"metadata": {"name": "other"}}),
        (f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "default"}}),
        (f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "strong"}}),
    ):
        made = admin.ask("POST", place, body)
        assert made.status == 201, made.message
    # Only system callers create Nodes in a tenant.
    made = world.operator.ask("POST", f"/tenants/{ATTACKER}/api/v1/nodes", {"metadata": {"name": "n1"}})
    assert made.status == 201, made.message
    found = world.user(ATTACKER, "lowly")
    assert found.ask("POST", f"{DEFAULT}/pods", pod("own")).status == 201
    return found


def pod(name: str, **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], **more}
    return {"metadata": {"name": name}, "spec": spec}


def binding(name: str, role: str, user: str, kind: str = "ClusterRole") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    }


@pytest.mark.parametrize("what", GRANTING)
def test_a_user_cannot_write_a_role_with_more_than_its_own_rights(lowly: Door, what: str) -> None:
    rules = GRANTING[what]
    cluster, local = (
        {"metadata": {"name": "more"}, "rules": rules},
        {"metadata": {"name": "more"}, "rules": rules},
    )
    refused = FORBIDDEN if "nonResourceURLs" not in rules[0] else frozenset({403, 422})
    assert problem(lowly.ask("POST", ROLES, cluster), refused) == ""
    assert problem(lowly.ask("POST", f"{ROLES}?dryRun=All", cluster), refused) == ""
    assert problem(lowly.ask("POST", f"{RBAC}/namespaces/default/roles", local), refused) == ""
    assert (
        problem(lowly.ask("PUT", f"{ROLES}/own", {"metadata": {"name": "own"}, "rules": rules}), refused)
        == ""
    )
    assert problem(lowly.ask("PATCH", f"{ROLES}/own", {"rules": rules}, MERGE), refused) == ""
    operations = [{"op": "replace", "path": "/rules", "value": rules}]
    json_patch = {"Content-Type": "application/json-patch+json"}
    assert problem(lowly.ask("PATCH", f"{ROLES}/own", operations, json_patch), refused) == ""
    applied = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", **cluster}
    assert problem(lowly.ask("PATCH", f"{ROLES}/more?fieldManager=a", applied, APPLY), refused) == ""


@pytest.mark.parametrize(
    "role", ["cluster-admin", "admin", "edit", "strong", "system:kube-controller-manager", "system:node"]
)
def test_a_user_cannot_bind_a_role_with_more_than_its_own_rights(lowly: Door, role: str) -> None:
    assert problem(lowly.ask("POST", BINDINGS, binding("more", role, "lowly")), FORBIDDEN) == ""
    place = f"{RBAC}/namespaces/default/rolebindings"
    assert problem(lowly.ask("POST", place, binding("more", role, "lowly")), FORBIDDEN) == ""
    for kind in ("clusterrole", "ClusterRole ", "Role"):
        answer = lowly.ask("POST", BINDINGS, binding("more", role, "lowly", kind))
        assert problem(answer, frozenset({403, 404, 422})) == ""


def test_a_binding_to_a_missing_role_is_refused(lowly: Door) -> None:
    assert problem(lowly.ask("POST", BINDINGS, binding("early", "later", "lowly")), frozenset({404})) == ""


def test_a_binding_of_an_own_role_cannot_be_changed_to_another_role(lowly: Door) -> None:
    assert lowly.ask("POST", BINDINGS, binding("harmless", "own", "lowly")).status == 201
    for body in (binding("harmless", "cluster-admin", "lowly"), binding("harmless", "strong", "lowly")):
        assert problem(lowly.ask("PUT", f"{BINDINGS}/harmless", body), frozenset({403, 422})) == ""


def test_a_user_cannot_gain_rights_by_aggregation(lowly: Door) -> None:
    selector = {
        "clusterRoleSelectors": [{"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-admin": "true"}}]
    }
    everything: dict[str, Any] = {"clusterRoleSelectors": [{}]}
    for aggregation in (selector, everything):
        body = {"metadata": {"name": "all"}, "rules": [], "aggregationRule": aggregation}
        assert problem(lowly.ask("POST", ROLES, body), FORBIDDEN) == ""
        assert (
            problem(lowly.ask("PATCH", f"{ROLES}/own", {"aggregationRule": aggregation}, MERGE), FORBIDDEN)
            == ""
        )
    assert problem(lowly.ask("PATCH", f"{ROLES}/collector", {"rules": ALL}, MERGE), FORBIDDEN) == ""


@pytest.mark.parametrize("what", SUBRESOURCES)
def test_the_right_to_a_resource_does_not_include_its_subresources(lowly: Door, what: str) -> None:
    method, path, body = SUBRESOURCES[what]
    headers = MERGE if method == "PATCH" else None
    assert problem(lowly.ask(method, path.format(DEFAULT), body, headers), FORBIDDEN) == ""


def test_fields_of_a_subresource_are_not_written_through_the_resource(world: World, lowly: Door) -> None:
    body = pod("settled")
    body["status"] = {"phase": "Running", "podIP": "10.0.0.1"}
    assert lowly.ask("POST", f"{DEFAULT}/pods", body).json["status"]["phase"] == "Pending"
    changed = lowly.ask("PATCH", f"{DEFAULT}/pods/settled", {"status": {"phase": "Running"}}, MERGE)
    assert changed.json["status"]["phase"] == "Pending"
    assert (
        problem(
            lowly.ask("PATCH", f"{DEFAULT}/pods/settled", {"spec": {"nodeName": "n1"}}, MERGE),
            frozenset({422}),
        )
        == ""
    )
    assert "nodeName" not in world.attacker.ask("GET", f"{DEFAULT}/pods/settled").json["spec"]


@pytest.mark.parametrize("selector", SELECTORS)
def test_a_selector_shows_no_more_than_the_one_that_is_allowed(
    world: World, lowly: Door, selector: str
) -> None:
    place = f"{DEFAULT}/secrets?fieldSelector={selector}"
    for method, query in (("GET", ""), ("DELETE", "&dryRun=All")):
        answer = lowly.ask(method, place + query)
        assert problem(answer, frozenset({200, 400, 403})) == ""
        shown = answer.json.get("items", []) if answer.status == 200 else []
        assert {each["metadata"]["name"] for each in shown} <= {"mine"}
    assert world.attacker.ask("GET", f"{DEFAULT}/secrets/other").status == 200


@pytest.mark.parametrize("selector", SELECTORS[:6:2])
def test_a_watch_shows_no_more_than_the_one_that_is_allowed(lowly: Door, selector: str) -> None:
    answer = lowly.ask("GET", f"{DEFAULT}/secrets?watch=1&timeoutSeconds=1&fieldSelector={selector}")
    assert problem(answer, frozenset({200, 400, 403})) == ""
    assert answer.status != 200 or b'"name":"other"' not in answer.body


def request_for(*groups: str, name: str = "x") -> str:
    """Return a certificate request in base64."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in groups]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(Encoding.PEM)).decode()


def signing(name: str, signer: str, request: str, **more: Any) -> dict[str, Any]:
    spec = {"signerName": signer, "request": request, "usages": ["client auth"], **more}
    return {"metadata": {"name": name}, "spec": spec}


CLIENT = "kubernetes.io/kube-apiserver-client"


def test_a_user_cannot_request_a_superusers_certificate(world: World, lowly: Door) -> None:
    for door in (lowly, world.attacker):
        answer = door.ask("POST", CSRS, signing("masters", CLIENT, request_for("system:masters")))
        assert problem(answer, FORBIDDEN) == ""
        both = signing("masters", CLIENT, request_for("a", "system:masters"))
        assert problem(door.ask("POST", CSRS, both), FORBIDDEN) == ""


@pytest.mark.parametrize("signer", [CLIENT, f"{CLIENT}-kubelet", "kubernetes.io/kubelet-serving"])
@pytest.mark.parametrize(
    "group",
    [
        "vcsync:tenant-admins",
        "vcsync:tenant-admins\0",
        "VCSYNC:Tenant-Admins",
        " vcsync:tenant-admins",
        "vcsync:x",
    ],
)
def test_a_user_cannot_request_an_administrators_certificate(
    world: World, lowly: Door, group: str, signer: str
) -> None:
    for door in (lowly, world.attacker):
        answer = door.ask("POST", CSRS, signing("admins", signer, request_for("a", group)))
        assert problem(answer, FORBIDDEN) == ""


@pytest.mark.parametrize("group", ["system:masters\0", "System:Masters", "system:masters "])
def test_a_user_cannot_request_a_certificate_that_resembles_a_superusers(
    world: World, lowly: Door, group: str
) -> None:
    for door in (lowly, world.attacker):
        answer = door.ask("POST", CSRS, signing("masters", CLIENT, request_for(group)))
        assert problem(answer, FORBIDDEN) == ""


@pytest.mark.parametrize(("group", "name"), [("dev\0s", "a"), ("devs", "a\n"), ("devs", "\x7fadmin")])
def test_a_name_with_control_characters_is_not_signed(
    world: World, lowly: Door, group: str, name: str
) -> None:
    for door in (lowly, world.attacker):
        answer = door.ask("POST", CSRS, signing("odd", CLIENT, request_for(group, name=name)))
        assert problem(answer, FORBIDDEN) == ""


def test_approving_and_signing_need_the_right_to_the_signer(world: World, lowly: Door) -> None:
    made = lowly.ask("POST", CSRS, signing("plain", CLIENT, request_for(name="admin")))
    assert made.status == 201
    condition = {"type": "Approved", "status": "True", "reason": "x", "message": "x"}
    whole = {**made.json, "status": {"conditions": [condition]}}
    assert problem(lowly.ask("PUT", f"{CSRS}/plain/approval", whole), FORBIDDEN) == ""
    patch = {"status": {"conditions": [condition]}}
    assert problem(lowly.ask("PATCH", f"{CSRS}/plain/approval", patch, MERGE), FORBIDDEN) == ""
    certificate = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n").decode()
    signed = {"status": {"certificate": certificate}}
    assert problem(lowly.ask("PATCH", f"{CSRS}/plain/status", signed, MERGE), FORBIDDEN) == ""
    for place in (f"{CSRS}/plain",):
        assert lowly.ask("PATCH", place, patch | signed, MERGE).status == 200
    assert "conditions" not in world.attacker.ask("GET", f"{CSRS}/plain").json["status"]


def test_the_requester_of_a_certificate_request_is_the_caller(lowly: Door) -> None:
    claimed = signing(
        "claimed",
        CLIENT,
        request_for(),
        username="admin",
        groups=["system:masters"],
        uid="0",
        extra={"a": ["b"]},
    )
    claimed["status"] = {"conditions": [{"type": "Approved", "status": "True"}], "certificate": "AAAA"}
    spec = lowly.ask("POST", CSRS, claimed).json
    assert spec["spec"]["username"] == "lowly"
    assert "system:masters" not in spec["spec"]["groups"]
    assert spec["status"] == {}
    changed = lowly.ask("PATCH", f"{CSRS}/claimed", {"spec": {"username": "admin"}}, MERGE)
    assert changed.status in (200, 422)
    assert lowly.ask("GET", f"{CSRS}/claimed").json["spec"]["username"] == "lowly"


def test_blocking_an_owners_deletion_needs_the_right_to_its_finalizers(world: World, lowly: Door) -> None:
    owner = world.attacker.ask("POST", f"{DEFAULT}/secrets", {"metadata": {"name": "owner"}}).json["metadata"]
    reference = {
        "apiVersion": "v1",
        "kind": "Secret",
        "name": "owner",
        "uid": owner["uid"],
        "blockOwnerDeletion": True,
    }
    body = pod("dependent")
    body["metadata"]["ownerReferences"] = [reference]
    assert problem(lowly.ask("POST", f"{DEFAULT}/pods", body), FORBIDDEN) == ""
    patch = {"metadata": {"ownerReferences": [reference]}}
    assert problem(lowly.ask("PATCH", f"{DEFAULT}/pods/own", patch, MERGE), FORBIDDEN) == ""


def test_an_owner_in_another_tenant_does_not_count(world: World) -> None:
    kept = world.victim.ask("GET", f"{DEFAULT}/secrets/kept-0").json["metadata"]
    reference = {
        "apiVersion": "v1",
        "kind": "Secret",
        "name": "kept-0",
        "uid": kept["uid"],
        "blockOwnerDeletion": True,
    }
    body = {"metadata": {"name": "adopted", "ownerReferences": [reference]}}
    world.attacker.ask("POST", f"{DEFAULT}/configmaps", body)
    deleted = world.attacker.ask("DELETE", f"{DEFAULT}/configmaps/adopted?propagationPolicy=Foreground")
    assert problem(deleted, frozenset({200, 404})) == ""


def test_a_uid_of_another_tenants_object_identifies_nothing(world: World) -> None:
    uid = world.victim.ask("GET", f"{DEFAULT}/secrets/kept-0").json["metadata"]["uid"]
    made = world.attacker.ask("POST", f"{DEFAULT}/configmaps", {"metadata": {"name": "twin", "uid": uid}})
    assert made.json["metadata"]["uid"] != uid
    options = {"preconditions": {"uid": uid}}
    assert (
        problem(world.attacker.ask("DELETE", f"{DEFAULT}/configmaps/twin", options), frozenset({409})) == ""
    )


@pytest.mark.parametrize("group", MIMICS)
def test_a_custom_resource_cannot_use_a_group_of_kubernetes(world: World, group: str) -> None:
    answer = world.attacker.ask(
        "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(group, "deployments")
    )
    if (
        answer.status == 201
    ):  # `apps` and words without a dot are names like any; the built-in kinds go before
        assert group in ("apps", "v1", "tenants")
        assert world.attacker.ask("GET", "/apis/apps/v1/deployments").json["kind"] == "DeploymentList"
        return
    assert problem(answer, frozenset({422})) == ""


def definition(group: str, plural: str) -> dict[str, Any]:
    names = {
        "plural": plural,
        "singular": plural[:-1],
        "kind": plural.title()[:-1],
        "listKind": plural.title() + "List",
    }
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": group, "names": names, "scope": "Cluster", "versions": [version]}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


@pytest.mark.parametrize("plural", ["tenants", "namespaces", "watches", "secrets", "proxies"])
def test_a_custom_resource_named_like_a_part_of_a_path_is_served_at_its_own_path(
    world: World, plural: str
) -> None:
    made = world.attacker.ask(
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        definition("odd.example.com", plural),
    )
    assert made.status in (201, 422)
    base = f"/apis/odd.example.com/v1/{plural}"
    for path in (
        f"{base}/victim/secrets",
        f"{base}/victim/tenants",
        f"{base}/victim",
        f"{base}/victim/status",
        f"{base}/all/{plural}",
    ):
        answer = world.attacker.ask("GET", path)
        assert problem(answer, frozenset({200, 403, 404})) == ""
        assert answer.status != 200 or answer.json["items"] == []


def test_access_reviews_concern_only_the_callers_tenant(world: World) -> None:
    attributes = {"verb": "get", "resource": "secrets", "namespace": "default"}
    for user, groups in (("admin", ["system:masters"]), ("system:admin", ["system:masters"]), ("nobody", [])):
        body = {"spec": {"user": user, "groups": groups, "resourceAttributes": attributes}}
        place = "apis/authorization.k8s.io/v1/subjectaccessreviews"
        assert world.attacker.ask("POST", f"/{place}", body).status == 201
        assert problem(world.attacker.ask("POST", f"/tenants/victim/{place}", body), FORBIDDEN) == ""


def test_a_node_reads_no_secret_that_its_pods_do_not_name(world: World) -> None:
    node = world.user(ATTACKER, "system:node:n1", "system:nodes")
    world.attacker.ask("POST", f"{DEFAULT}/secrets", {"metadata": {"name": "private"}})
    for path in (
        f"{DEFAULT}/secrets/private",
        f"{DEFAULT}/secrets",
        "/api/v1/secrets",
        f"{DEFAULT}/secrets?fieldSelector=metadata.name=private",
    ):
        assert problem(node.ask("GET", path), FORBIDDEN) == ""
    other = world.user(ATTACKER, "system:node:n2", "system:nodes")
    world.attacker.ask(
        "POST",
        f"{DEFAULT}/pods",
        pod("placed", nodeName="n1", volumes=[{"name": "v", "secret": {"secretName": "private"}}]),
    )
    assert problem(other.ask("GET", f"{DEFAULT}/secrets/private"), FORBIDDEN) == ""
