"""A Pod gets the tokens, CA and endpoint of only its own tenant's API, independent of its volumes."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hollow_kubelet import SERVICE_ACCOUNT, environment, files
from pool_kit import Json, Pool, Space, annotation, container, pod, read

from hack.testbed import Cluster
from tests.real.waiting import eventually
from vcsync.api import names

ROBOT: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}


def claims(token: str) -> Json:
    """Return the claims of a JWT."""
    body = token.split(".")[1]
    decoded: Json = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return decoded


def review(cluster: Cluster, token: str, *audiences: str) -> Json:
    """Return a cluster's review of a token."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    spec: Json = {"token": token} | ({"audiences": list(audiences)} if audiences else {})
    code, answer = cluster.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {**body, "spec": spec})
    assert code == 201, answer
    status: Json = answer["status"]
    return status


def who_am_i(cluster: Cluster, folder: Path, mounted: dict[str, bytes], variables: dict[str, str]) -> Json:
    """Run `kubectl auth whoami` with a container's files and environment, like an in-cluster client."""
    authority = folder / "ca.crt"
    authority.write_bytes(mounted[f"{SERVICE_ACCOUNT}/ca.crt"])
    server = f"https://{variables['KUBERNETES_SERVICE_HOST']}:{variables['KUBERNETES_SERVICE_PORT']}"
    token = mounted[f"{SERVICE_ACCOUNT}/token"].decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pod",
        "contexts": [{"name": "pod", "context": {"cluster": "api", "user": "pod"}}],
        "clusters": [{"name": "api", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "pod", "user": {"token": token}}],
    }
    path = folder / "config"
    path.write_text(json.dumps(config))
    output = cluster.kubectl("--kubeconfig", str(path), "auth", "whoami", "-o", "json")
    user: Json = json.loads(output)["status"]["userInfo"]
    return user


@pytest.mark.core
def test_a_pod_calls_its_own_tenant_as_its_service_account(pool: Pool, space: Space, tmp_path: Path) -> None:
    space.apply(ROBOT)
    space.apply(pod("client", serviceAccountName="robot"))
    mine = space.running("client")
    super_id, standing = space.below("client")
    below = pool.supers[super_id]

    mounted = files(below, standing)
    variables = environment(below, standing)

    assert mounted[f"{SERVICE_ACCOUNT}/namespace"].decode() == space.name
    assert mounted[f"{SERVICE_ACCOUNT}/ca.crt"].decode().strip() == space.tenant.ca_pem.strip()
    # In an embedded control plane the token alone selects the tenant, without a path prefix.
    endpoint = f"https://{variables['KUBERNETES_SERVICE_HOST']}:{variables['KUBERNETES_SERVICE_PORT']}"
    assert endpoint + space.tenant.plan.path == space.tenant.url
    user = who_am_i(space.tenant, tmp_path, mounted, variables)
    assert user["username"] == f"system:serviceaccount:{space.name}:robot"
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["client"]
    assert user["extra"]["authentication.kubernetes.io/pod-uid"] == [mine["metadata"]["uid"]]

    token = mounted[f"{SERVICE_ACCOUNT}/token"].decode()
    for other in (pool.cluster("r1"), pool.cluster("r2"), pool.cluster("umbrella"), pool.cluster("meta")):
        assert not review(other, token).get("authenticated"), other.name

    # After the Pod's end the Secret is deleted, and copies of the token are invalid.
    secret = names.TOKEN_SECRET_PREFIX + mine["metadata"]["uid"]
    assert space.there(super_id, "secrets", secret)
    space.kubectl("delete", "pod", "client")
    eventually(lambda: space.there(super_id, "secrets", secret) is None)
    eventually(lambda: not review(space.tenant, token).get("authenticated"))


def test_tokens_have_the_requested_audience_and_lifetime(pool: Pool, space: Space) -> None:
    sources = [
        {"serviceAccountToken": {"audience": "vault", "expirationSeconds": 600, "path": "vault"}},
        {"serviceAccountToken": {"expirationSeconds": 7200, "path": "api"}},
    ]
    volume = {"name": "tokens", "projected": {"sources": sources}}
    mount = {"name": "tokens", "mountPath": "/tokens"}
    space.apply(pod("client", volumes=[volume], containers=[container(volumeMounts=[mount])]))
    super_id, standing = space.below("client")

    mounted = files(pool.supers[super_id], standing)

    vault, api = claims(mounted["/tokens/vault"].decode()), claims(mounted["/tokens/api"].decode())
    assert vault["aud"] == ["vault"]
    assert vault["exp"] - vault["iat"] == 600
    assert api["aud"] == claims(mounted[f"{SERVICE_ACCOUNT}/token"].decode())["aud"] != ["vault"]
    assert api["exp"] - api["iat"] == 7200
    verdict = review(space.tenant, mounted["/tokens/vault"].decode(), "vault")
    assert verdict["authenticated"] is True
    assert verdict["audiences"] == ["vault"]
    assert not review(space.tenant, mounted["/tokens/vault"].decode()).get("authenticated")


def test_tokens_are_renewed_in_time(pool: Pool, space: Space) -> None:
    source = {"serviceAccountToken": {"audience": "vault", "expirationSeconds": 600, "path": "vault"}}
    volume = {"name": "tokens", "projected": {"sources": [source]}}
    mount = {"name": "tokens", "mountPath": "/tokens"}
    space.apply(pod("client", volumes=[volume], containers=[container(volumeMounts=[mount])]))
    super_id, standing = space.below("client")
    below = pool.supers[super_id]
    name = names.TOKEN_SECRET_PREFIX + space.running("client")["metadata"]["uid"]
    before = files(below, standing)["/tokens/vault"]

    secret = space.there(super_id, "secrets", name)
    due = datetime.strptime(annotation(secret, names.TOKEN_RENEW) or "", "%Y-%m-%dT%H:%M:%S%z")
    issued = datetime.fromtimestamp(claims(before.decode())["iat"], UTC)
    assert 470 <= (due - issued).total_seconds() <= 490, "at 80 % of the shortest lifetime"

    # Let the tokens be due for renewal.
    past = json.dumps({"metadata": {"annotations": {names.TOKEN_RENEW: "2020-01-01T00:00:00Z"}}})
    below.kubectl("-n", space.super_name, "patch", "secret", name, "--type=merge", "-p", past)

    after = eventually(lambda: _other(files(below, standing)["/tokens/vault"], before))
    assert review(space.tenant, after.decode(), "vault")["authenticated"] is True
    assert (annotation(space.there(super_id, "secrets", name), names.TOKEN_RENEW) or "") > "2026"


def _other(found: bytes, before: bytes) -> bytes:
    return found if found != before else b""


def test_no_volume_of_a_tenant_mounts_data_of_the_super_cluster(pool: Pool, space: Space) -> None:
    legacy = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "legacy", "annotations": {"kubernetes.io/service-account.name": "default"}},
    }
    space.apply(legacy)
    eventually(lambda: "token" in ((space.get("secrets", "legacy") or {}).get("data") or {}))
    root = "kube-root-ca.crt"
    volumes = [
        {"name": "legacy", "secret": {"secretName": "legacy"}},
        {"name": "ca", "configMap": {"name": root}},
        {
            "name": "kube-api-access-zzzzz",  # as if it were the admission plug-in's
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                    {"serviceAccountToken": {"path": "issuer", "audience": "https://kubernetes.default.svc"}},
                    {"serviceAccountToken": {"path": "super", "audience": pool.supers["r1"].url}},
                    {"configMap": {"name": root, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                    {"secret": {"name": "legacy", "items": [{"key": "token", "path": "legacy"}]}},
                    {
                        "downwardAPI": {
                            "items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]
                        }
                    },
                ]
            },
        },
        {"name": "optional", "secret": {"secretName": "default-token", "optional": True}},
    ]
    mounts = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
    variables = [
        {"name": "CA", "valueFrom": {"configMapKeyRef": {"name": root, "key": "ca.crt"}}},
        {"name": "HOST", "value": "$(KUBERNETES_SERVICE_HOST)"},
    ]
    sources = [{"prefix": "", "configMapRef": {"name": root}}]
    greedy = container(volumeMounts=mounts, env=variables, envFrom=sources)
    first = container("first", volumeMounts=mounts, env=variables)
    space.apply(
        pod(
            "greedy",
            containers=[greedy],
            initContainers=[first],
            volumes=volumes,
            automountServiceAccountToken=True,
            enableServiceLinks=True,
        )
    )
    super_id, standing = space.below("greedy")
    below = pool.supers[super_id]
    endpoint = read(below, "/api/v1/namespaces/default/services/kubernetes") or {}

    assert standing["spec"]["automountServiceAccountToken"] is False
    for name in ("main", "first"):
        mounted, environ = files(below, standing, name), environment(below, standing, name)
        texts = [*mounted.values(), *(value.encode() for value in environ.values())]
        assert mounted["/kube-api-access-zzzzz/ns"].decode() == space.name
        for text in texts:
            assert below.ca_pem.strip().encode() not in text
            assert endpoint["spec"]["clusterIP"].encode() not in text
            if text.count(b".") == 2 and text.startswith(b"ey"):
                assert not review(below, text.decode()).get("authenticated")
        for path in ("/ca/ca.crt", "/legacy/ca.crt", "/kube-api-access-zzzzz/ca.crt"):
            assert mounted[path].decode().strip() == space.tenant.ca_pem.strip()
        assert review(space.tenant, mounted["/legacy/token"].decode())["authenticated"] is True
        assert environ["HOST"] == environ["KUBERNETES_SERVICE_HOST"] == "127.0.0.1"
        assert environ["CA"].strip() == space.tenant.ca_pem.strip()
        assert "/optional/token" not in mounted
    kept = space.there(super_id, "secrets", "legacy")
    assert kept is not None
    assert kept["type"] == "Opaque", "else the super cluster would fill in a token of its own"


@pytest.mark.parametrize(
    ("kind", "name"),
    [("Secret", names.TOKEN_SECRET_PREFIX + "0b0e1a5e"), ("ConfigMap", names.TENANT_ROOT_CA)],
)
def test_names_that_imitate_ours_are_not_synced(space: Space, kind: str, name: str) -> None:
    space.apply({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "data": {}})

    eventually(lambda: space.events(name, "ReservedName"))

    for super_id in space.pool.supers:
        standing = space.there(super_id, f"{kind.lower()}s", name)
        uid = (space.get(f"{kind.lower()}s", name) or {})["metadata"]["uid"]
        assert annotation(standing, names.UID) != uid


def test_a_token_of_a_deleted_service_account_is_refused(space: Space, pool: Pool) -> None:
    space.apply(ROBOT)
    space.apply(pod("client", serviceAccountName="robot"))
    super_id, standing = space.below("client")
    token = files(pool.supers[super_id], standing)[f"{SERVICE_ACCOUNT}/token"].decode()
    assert review(space.tenant, token)["authenticated"] is True
    space.kubectl("delete", "serviceaccount", "robot")
    eventually(lambda: not review(space.tenant, token).get("authenticated"))
    eventually(lambda: space.there(super_id, "serviceaccounts", "robot") is None)
