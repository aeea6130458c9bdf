"""External control planes behind the door: real kube-apiservers, reached with kubectl and Helm through a control plane."""

import asyncio
import base64
import os
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from gateway_kit import DEADLINE, DOMAIN, Door, User, namespace_in, proxy

from hack.embedded import ControlPlane, ControlPlaneError
from hack.testbed import TestBed, ensure
from hack.testbed.faultproxy import FaultProxy
from tests.real.waiting import eventually

GATEWAY = "system:serviceaccount:vcsync-system:vcsync-gateway"


@pytest.fixture(scope="module")
def door(testbed: TestBed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """The tenant umbrella, an external control plane, and acme with an embedded one, each reached by its host name."""
    domain = ("--tenant-domain", DOMAIN)
    with proxy() as way, ControlPlane(tmp_path_factory.mktemp("door"), arguments=domain) as plane:
        found = Door(plane, way)
        found.connect("umbrella", testbed.tenants["umbrella"].kubeconfig, "--group", "developers")
        plane.create("acme")
        yield found
        assert "Traceback" not in plane.log.read_text()


@pytest.fixture
def namespace(testbed: TestBed) -> Iterator[str]:
    with namespace_in(testbed.tenants["umbrella"]) as name:
        yield name


@pytest.fixture
def admin(door: Door, namespace: str) -> User:
    return door.user("umbrella", namespace)


def config_map(name: str, **data: str) -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})


def test_an_administrator_works_as_at_its_own_server(testbed: TestBed, admin: User) -> None:
    assert "configmap/a serverside-applied" in admin.kubectl(
        "apply", "--server-side", "-f", "-", stdin=config_map("a", k="1")
    )
    admin.kubectl("apply", "-f", "-", stdin=config_map("b", k="1"))
    admin.kubectl("patch", "configmap", "a", "--type=merge", "-p", '{"data":{"k":"2"}}')
    there = testbed.tenants["umbrella"].kubectl(
        "get", "configmap", "a", "-n", admin.namespace, "-o", "json", "--show-managed-fields"
    )
    assert msgspec.json.decode(there)["data"] == {"k": "2"}
    managers = {each["manager"] for each in msgspec.json.decode(there)["metadata"]["managedFields"]}
    assert "kubectl-patch" in managers
    assert "configmap/b" in admin.kubectl("get", "configmaps", "-o", "name")
    assert "ConfigMap" in admin.kubectl("explain", "configmap")
    assert "deployments" in admin.kubectl("api-resources")
    admin.kubectl("delete", "configmap", "a")
    assert "NotFound" in admin.refused("get", "configmap", "a")


def test_the_api_server_sees_exactly_the_user(door: Door, namespace: str) -> None:
    alice = door.user("umbrella", namespace, "alice", "developers")
    user = msgspec.json.decode(alice.kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert (user["username"], user["groups"]) == ("alice", ["developers", "system:authenticated"])
    assert list(user["extra"]) == ["authentication.kubernetes.io/credential-id"]


def test_the_rbac_of_the_external_control_plane_decides(door: Door, admin: User) -> None:
    alice = door.user("umbrella", admin.namespace, "alice", "developers")
    assert 'User "alice" cannot list resource "pods"' in alice.refused("get", "pods")
    admin.kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
    admin.kubectl("create", "rolebinding", "readers", "--role=reader", "--group=developers")
    eventually(lambda: alice.run("get", "pods").returncode == 0)
    assert 'cannot list resource "secrets"' in alice.refused("get", "secrets")
    assert alice.run("auth", "can-i", "list", "pods").stdout == "yes\n"
    assert alice.run("auth", "can-i", "list", "secrets").stdout == "no\n"


def test_a_group_that_the_gateway_may_not_impersonate_is_refused(door: Door, namespace: str) -> None:
    mallory = door.user("umbrella", namespace, "mallory", "undeclared")
    refused = mallory.refused("get", "pods")
    assert f'User "{GATEWAY}" cannot impersonate resource "groups"' in refused


def test_acting_as_another_user_needs_the_right_to_it(door: Door, admin: User) -> None:
    alice = door.user("umbrella", admin.namespace, "alice")
    assert 'User "alice" cannot impersonate resource "users"' in alice.refused("get", "pods", "--as=bob")
    name = f"impersonate-bob-{admin.namespace}"
    admin.kubectl(
        "create", "clusterrole", name, "--verb=impersonate", "--resource=users", "--resource-name=bob"
    )
    admin.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", "--user=alice")
    try:
        eventually(
            lambda: 'User "bob" cannot list resource "pods"' in alice.refused("get", "pods", "--as=bob")
        )
        assert 'cannot impersonate resource "users"' in alice.refused("get", "pods", "--as=carol")
        assert 'cannot impersonate resource "groups"' in alice.refused(
            "get", "pods", "--as=bob", "--as-group=developers"
        )
        admin.kubectl("create", "rolebinding", "bob", "--clusterrole=view", "--user=bob")
        eventually(lambda: alice.run("get", "pods", "--as=bob").returncode == 0)
    finally:
        admin.kubectl("delete", f"clusterrolebinding/{name}", f"clusterrole/{name}")


@pytest.mark.parametrize("group", ["system:masters", "system:nodes", "system:serviceaccounts:kube-system"])
def test_nobody_becomes_a_member_of_kubernetes_own_groups(admin: User, group: str) -> None:
    told = admin.refused("get", "pods", "--as=bob", f"--as-group={group}")
    assert f'the group "{group}" is not available in an external control plane' in told


def test_a_service_account_is_impersonated_with_its_groups(admin: User) -> None:
    account = f"system:serviceaccount:{admin.namespace}:default"
    told = admin.kubectl("auth", "whoami", f"--as={account}", "-o", "json")
    user = msgspec.json.decode(told)["status"]["userInfo"]
    assert user["username"] == account
    assert sorted(user["groups"]) == sorted(
        ["system:serviceaccounts", f"system:serviceaccounts:{admin.namespace}", "system:authenticated"]
    )


def test_tokens_of_service_accounts_are_valid_at_the_door(door: Door, admin: User, tmp_path: Path) -> None:
    admin.kubectl("create", "serviceaccount", "robot")
    account = f"system:serviceaccount:{admin.namespace}:robot"
    robot = with_token(admin, admin.kubectl("create", "token", "robot").strip(), tmp_path / "robot")
    user = msgspec.json.decode(robot.kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert user["username"] == account
    assert user["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")
    assert f'User "{account}" cannot list resource "configmaps"' in robot.refused("get", "configmaps")
    admin.kubectl("create", "rolebinding", "robots", "--clusterrole=view", f"--serviceaccount={account[22:]}")
    eventually(lambda: robot.run("get", "configmaps").returncode == 0)
    assert "only at the control plane's own address" in robot.refused("get", "pods", "--as=bob")
    for tenant in ("acme", "no-such"):
        assert "Unauthorized" in robot.refused(
            f"--server={door.plane.url}/tenants/{tenant}", "get", "--raw", "/api"
        )
    assert "Unauthorized" in robot.refused(f"--server={door.plane.url}", "get", "--raw", "/api")
    admin.kubectl("delete", "serviceaccount", "robot")
    eventually(lambda: robot.run("get", "configmaps").returncode != 0)
    assert "Unauthorized" in robot.refused("get", "--raw", "/api")


def with_token(user: User, token: str, path: Path) -> User:
    """Return a user with the same server who has a token instead of a certificate."""
    content = yaml.safe_load(user.kubeconfig.read_text())
    content["users"][0]["user"] = {"token": token}
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content))
    return User(path, user.namespace)


def test_the_gateway_itself_can_do_nothing_else(testbed: TestBed) -> None:
    umbrella = testbed.tenants["umbrella"]
    secret = umbrella.kubectl("get", "secret", "vcsync-gateway-token", "-n", "vcsync-system", "-o", "json")
    token = base64.b64decode(msgspec.json.decode(secret)["data"]["token"]).decode()
    # kubectl prefers a client certificate to a token, so the test bed's token kubeconfig is used.
    for arguments in (
        ["get", "secrets", "-A"],
        ["get", "namespaces"],
        ["create", "namespace", "x"],
        ["get", "pods", "--as=bob", "--as-group=system:masters"],
        ["get", "pods", "--as=bob", "--as-group=developers-of-another"],
        ["get", "pods", "--as=bob", "--as-user-extra=scopes=all"],
    ):
        with pytest.raises(Exception, match="orbidden"):
            umbrella.kubectl(*arguments, f"--token={token}")


def test_users_of_other_tenants_are_refused(door: Door, namespace: str) -> None:
    stranger = door.user("acme", "default")
    for tenant in ("umbrella", "no-such"):
        for url in (f"{door.plane.url}/tenants/{tenant}", f"https://{tenant}.{DOMAIN}:{door.plane.port}"):
            said = stranger.refused(
                f"--server={url}", "get", "--raw", "/api/v1/namespaces/default/configmaps"
            )
            assert "(Forbidden)" in said
            assert "umbrella" not in said.replace(url, "")


def test_each_tenant_has_a_host_name(door: Door, admin: User) -> None:
    acme = door.user("acme", "default")
    for user, tenant in ((admin, "umbrella"), (acme, "acme")):
        server = user.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
        assert server == f"https://{tenant}.{DOMAIN}:{door.plane.port}"
        assert user.run(f"--server={door.plane.url}/tenants/{tenant}", "get", "configmaps").returncode == 0
    # kubectl caches discovery by host: the embedded tenant has no DaemonSets.
    assert "daemonsets" in admin.kubectl("api-resources", "--cached", "-o", "name")
    assert "daemonsets" not in acme.kubectl("api-resources", "--cached", "-o", "name")
    elsewhere = acme.refused(
        f"--server=https://acme.{DOMAIN}:{door.plane.port}/tenants/umbrella", "get", "--raw", "/api"
    )
    assert "another tenant than its host name" in elsewhere
    misdirected = acme.refused(
        f"--server={door.plane.url}", f"--tls-server-name=acme.{DOMAIN}", "get", "--raw", "/api"
    )
    assert "not the host name for which its TLS connection was opened" in misdirected


def test_a_watch_follows_changes_and_ends_when_its_certificate_is_revoked(door: Door, admin: User) -> None:
    watcher = door.user("umbrella", admin.namespace, "watcher")
    admin.kubectl("create", "rolebinding", "watchers", "--clusterrole=view", "--user=watcher")
    eventually(lambda: watcher.run("get", "configmaps").returncode == 0)
    with watcher.running("get", "configmaps", "--watch", "-o", "name") as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline() == "configmap/kube-root-ca.crt\n"
        for name in ("first", "second"):
            admin.kubectl("create", "configmap", name)
            assert watch.stdout.readline() == f"configmap/{name}\n"
        door.plane.vcsync("tenant", "revoke", "umbrella", "--user", "watcher")
        assert watch.wait(DEADLINE) is not None
    assert "Unauthorized" in watcher.refused("get", "configmaps") + watcher.refused("get", "configmaps")


def test_a_new_token_ends_open_watches_and_is_used(door: Door, admin: User, testbed: TestBed) -> None:
    umbrella = testbed.tenants["umbrella"]
    get = ("get", "secret", "vcsync-gateway-token", "-n", "vcsync-system", "-o", "jsonpath={.data.token}")
    before = umbrella.kubectl(*get)
    with admin.running(
        "get", "--raw", f"/api/v1/namespaces/{admin.namespace}/configmaps?watch=true"
    ) as watch:
        assert watch.stdout is not None
        assert "ADDED" in watch.stdout.readline()
        door.connect("umbrella", umbrella.kubeconfig, "--group", "developers", "--revoke")
        assert watch.wait(DEADLINE) is not None
    assert umbrella.kubectl(*get) != before
    eventually(lambda: admin.run("get", "configmaps").returncode == 0)


def test_large_lists_come_whole(testbed: TestBed, admin: User) -> None:
    """Twelve ConfigMaps of half a megabyte, compressed and not."""
    for number in range(12):
        body = {"metadata": {"name": f"large-{number}"}, "data": {"k": "0123456789abcdef" * 32_000}}
        path = f"/api/v1/namespaces/{admin.namespace}/configmaps"
        assert testbed.tenants["umbrella"].call("POST", path, body)[0] == 201
    listed = msgspec.json.decode(admin.kubectl("get", "configmaps", "-o", "json"))["items"]
    assert sum(len(each["data"]["k"]) for each in listed if "k" in each["data"]) == 12 * 512_000
    plain = msgspec.json.decode(admin.kubectl("get", "--raw", path, "--disable-compression=true"))["items"]
    assert len(plain) == 13


async def test_a_server_that_is_down_is_503_until_it_is_back(
    door: Door, testbed: TestBed, fault_proxy: Callable[..., Awaitable[FaultProxy]]
) -> None:
    proxy = await fault_proxy(testbed.tenants["acme"], tcp=True)
    await asyncio.to_thread(door.connect, "behind", proxy.kubeconfig)
    behind = await asyncio.to_thread(door.user, "behind", "default")
    assert "default" in await asyncio.to_thread(behind.kubectl, "get", "namespaces")
    proxy.refuse()
    proxy.cut()
    told = await asyncio.to_thread(behind.refused, "get", "--raw", "/api/v1/namespaces")
    assert "the API server of this control plane cannot be reached; try again" in told
    assert "(ServiceUnavailable)" in told
    assert "127.0.0.1" not in told.replace(door.plane.url, "")
    await proxy.accept()
    assert "default" in await asyncio.to_thread(behind.kubectl, "get", "namespaces")
    assert door.plane.log.read_text().count("an external control plane cannot be reached") == 1
    door.plane.vcsync("tenant", "delete", "behind")


def test_a_stopped_server_is_told_from_a_slow_one(door: Door, admin: User, testbed: TestBed) -> None:
    """Its connections stay open, and the kernel accepts new ones. The other tenant notices nothing."""
    acme = door.user("acme", "default")
    cluster = testbed.tenants["umbrella"]
    cluster.pause("kube-apiserver")
    try:
        answer = admin.run("create", "configmap", "late")
        assert "does not answer; try again" in answer.stderr
        assert acme.kubectl("get", "namespace", "default", "-o", "name") == "namespace/default\n"
    finally:
        cluster.resume("kube-apiserver")
    eventually(lambda: admin.run("get", "namespaces").returncode == 0)


def test_helm_installs_a_chart(admin: User, tmp_path: Path) -> None:
    chart = tmp_path / "one"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: one\nversion: 1.0.0\n")
    (chart / "templates" / "map.yaml").write_text(config_map("charted", k="v"))
    folders = {f"HELM_{kind}_HOME": str(tmp_path / kind) for kind in ("CACHE", "CONFIG", "DATA")}

    def helm(*arguments: str) -> str:
        return subprocess.run(
            [str(ensure(["helm"])["helm"]), *arguments, "--namespace", admin.namespace],
            env={**os.environ, **folders, "KUBECONFIG": str(admin.kubeconfig)},
            capture_output=True, text=True, check=True, timeout=120,
        ).stdout  # fmt: skip

    assert "STATUS: deployed" in helm("install", "one", str(chart))
    assert admin.kubectl("get", "configmap", "charted", "-o", "jsonpath={.data.k}") == "v"
    helm("uninstall", "one")
    assert "NotFound" in admin.refused("get", "configmap", "charted")


def test_the_door_keeps_the_place_over_a_restart(door: Door, admin: User) -> None:
    door.plane.stop()
    door.plane.start()
    assert "configmap/kube-root-ca.crt" in admin.kubectl("get", "configmaps", "-o", "name")


def test_what_cannot_be_connected_is_refused_with_the_reason(
    door: Door, testbed: TestBed, tmp_path: Path
) -> None:
    umbrella = testbed.tenants["umbrella"]
    with pytest.raises(ControlPlaneError, match="its control plane is embedded"):
        door.connect("acme", umbrella.kubeconfig)
    config = yaml.safe_load(umbrella.kubeconfig.read_text())
    config["clusters"][0]["cluster"].pop("certificate-authority-data")
    config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    path = tmp_path / "insecure.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(ControlPlaneError, match="whose certificate it can check"):
        door.connect("insecure", path)
    with pytest.raises(ControlPlaneError, match="groups of Kubernetes' own are never impersonated"):
        door.connect("more", umbrella.kubeconfig, "--group", "system:masters")


def test_the_credential_of_the_gateway_is_shown_to_nobody(door: Door, testbed: TestBed) -> None:
    umbrella = testbed.tenants["umbrella"]
    encoded = umbrella.kubectl(
        "get", "secret", "vcsync-gateway-token", "-n", "vcsync-system", "-o", "jsonpath={.data.token}"
    )
    token = base64.b64decode(encoded).decode()
    shown = door.plane.vcsync("tenant", "list", "-o", "yaml") + door.plane.vcsync(
        "tenant", "show", "umbrella", "-o", "json"
    )
    assert "umbrella" in shown
    assert token not in shown
    assert token not in door.plane.log.read_text()


def test_a_deleted_tenant_has_no_place(door: Door, testbed: TestBed) -> None:
    umbrella = testbed.tenants["umbrella"]
    door.connect("short", umbrella.kubeconfig, "--group", "developers")
    user = door.user("short", "default")
    user.kubectl("get", "configmaps")
    door.plane.vcsync("tenant", "delete", "short")
    assert "Unauthorized" in user.refused("get", "configmaps") + user.refused("get", "configmaps")
    assert umbrella.call("GET", "/api/v1/namespaces/default")[0] == 200
