"""Oddly encoded paths and invalid names: none of them leads out of the caller's own tenant."""

import base64
import json

import pytest

from hack.attacks.client import Answer
from hack.attacks.judge import REFUSED, hint, problem
from hack.attacks.world import ATTACKER, MARK, NOBODY, World

SECRETS = "/api/v1/namespaces/default/secrets"
TARGETS = {
    "dot segments": "/tenants/mallet/../{}/api/v1/secrets",
    "encoded dot segments": "/tenants/mallet/%2e%2e/{}/api/v1/secrets",
    "half encoded dot segments": "/tenants/mallet/.%2E/{}/api/v1/secrets",
    "twice encoded dot segments": "/tenants/mallet/%252e%252e/{}/api/v1/secrets",
    "encoded slashes": "/tenants/mallet%2f..%2f{}/api/v1/secrets",
    "encoded slashes in upper case": "/tenants/mallet%2F..%2F{}/api/v1/secrets",
    "twice encoded slashes": "/tenants/mallet%252f..%252f{}/api/v1/secrets",
    "overlong dots": "/tenants/mallet/%c0%ae%c0%ae/{}/api/v1/secrets",
    "overlong slash": "/tenants/mallet%c0%af..%c0%af{}/api/v1/secrets",
    "overlong slash of three bytes": "/tenants/mallet%e0%80%af..%e0%80%af{}/api/v1/secrets",
    "wide slash": "/tenants/mallet%ef%bc%8f..%ef%bc%8f{}/api/v1/secrets",
    "division slash": "/tenants/mallet%e2%88%95..%e2%88%95{}/api/v1/secrets",
    "IIS unicode": "/tenants/mallet/%u002e%u002e/{}/api/v1/secrets",
    "backslashes": "/tenants/mallet\\..\\{}/api/v1/secrets",
    "encoded backslashes": "/tenants/mallet%5c..%5c{}/api/v1/secrets",
    "semicolons": "/tenants/mallet/..;/{}/api/v1/secrets",
    "a path parameter": "/tenants/mallet;tenant={}/api/v1/secrets",
    "double slash in front": "//tenants/{}/api/v1/secrets",
    "double slash inside": "/tenants//{}/api/v1/secrets",
    "double slash behind": "/tenants/{}//api/v1/secrets",
    "one tenant in another": "/tenants/mallet/tenants/{}/api/v1/secrets",
    "own tenant in front, another inside": "/tenants/mallet/api/v1/tenants/{}/secrets",
    "another in front, own tenant inside": "/tenants/{}/api/v1/tenants/mallet/secrets",
    "two inside": "/api/v1/tenants/mallet/tenants/{}/secrets",
    "inside, behind a namespace": "/api/v1/namespaces/default/tenants/{}/secrets",
    "as a namespace's part": "/api/v1/namespaces/..%2f..%2f{}/secrets",
    "as a name's part": "/api/v1/namespaces/default/secrets/..%2f..%2f{}%2fkept-0",
    "NUL behind the name": "/tenants/{}%00/api/v1/secrets",
    "NUL between two names": "/tenants/mallet%00{}/api/v1/secrets",
    "NUL in the namespace": "/api/v1/namespaces/default%00{}/secrets",
    "space behind the name": "/tenants/{}%20/api/v1/secrets",
    "tab in front of the name": "/tenants/%09{}/api/v1/secrets",
    "line feed": "/tenants/mallet%0a{}/api/v1/secrets",
    "carriage return and header": "/tenants/mallet%0d%0aX-Tenant:%20{}/api/v1/secrets",
    "a dot behind the name": "/tenants/{}./api/v1/secrets",
    "a port behind the name": "/tenants/{}:443/api/v1/secrets",
    "user information": "/tenants/mallet@{}/api/v1/secrets",
    "a plus": "/tenants/+{}/api/v1/secrets",
    "a zero-width space": "/tenants/{}%e2%80%8b/api/v1/secrets",
    "a soft hyphen": "/tenants/%c2%ad{}/api/v1/secrets",
    "a byte order mark": "/tenants/%ef%bb%bf{}/api/v1/secrets",
    "right to left": "/tenants/%e2%80%ae{}/api/v1/secrets",
    "an encoded letter": "/%74enants/{}/api/v1/secrets",
    "an encoded prefix": "/%74%65%6e%61%6e%74%73/{}/%61%70%69/v1/secrets",
    "upper case prefix": "/TENANTS/{}/api/v1/secrets",
    "mixed case prefix": "/Tenants/{}/api/v1/secrets",
    "a fragment": "/api/v1/namespaces#/tenants/{}/api/v1/secrets",
    "an encoded fragment": "/tenants/mallet%23/../{}/api/v1/secrets",
    "an encoded question mark": "/tenants/mallet%3f/../{}/api/v1/secrets",
    "a query that is a path": "/apis/x.y/v1?/../../../tenants/{}/api/v1/secrets",
    "a query that names it": "/apis/x.y/v1?tenant={}",
    "absolute form": "https://127.0.0.1/tenants/{}/api/v1/secrets",
    "absolute form of another host": "http://{}/api/v1/secrets",
    "absolute form, with user information": "https://admin:admin@127.0.0.1/tenants/{}/api/v1/secrets",
    "no slash in front": "tenants/{}/api/v1/secrets",
    "not a path": "*/tenants/{}",
    "a store's key": "/tenants/~vcsync%2ftenants%2f{}/api/v1/secrets",
    "the operator's path in a tenant": "/tenants/mallet/vcsync/v1/tenants/{}",
    "the operator's path with two slashes": "//vcsync//v1/tenants/{}",
    "the operator's path, encoded": "/%76csync/v1/tenants/{}/kubeconfig",
    "the operator's path, by dots": "/tenants/mallet/../../vcsync/v1/tenants/{}/kubeconfig",
    "a proxy's path": "/api/v1/proxy/tenants/{}/secrets",
    "an old watch path": "/tenants/{}/api/v1/watch/namespaces/default/secrets",
    "a Service's proxy": "/api/v1/namespaces/default/services/https:kubernetes:https/proxy/tenants/{}/api/v1/secrets",
    "a node's proxy": "/api/v1/nodes/{}/proxy/pods",
}  # fmt: skip
NAMES = (
    "", ".", "..", "*", "-", "system", "all", "ALL", "System", "VICTIM", "Victim", "%76ictim", "vict%69m", "v%C4%B1ctim",
    "victim,mallet", "victim|mallet", "mallet,victim", "~vcsync", "_", "default", "kube-system", "0", "null", "None",
    "victim'--", "$victim", "%25", "%", "%zz", "a" * 63, "a" * 300, "xn--victim", "%F0%9D%93%8Bictim", "%EF%BD%96ictim",
)  # fmt: skip
EMPTY = (
    "/tenants//api/v1/secrets", "/tenants/./api/v1/secrets", "/api/v1/tenants//secrets", "//api/v1/secrets",
    "/api/v1/tenants//namespaces/default/secrets", "/apis/apps/v1/tenants//deployments", "/api/v1/watch/tenants//secrets",
)  # fmt: skip
UNDELETABLE = {
    "NUL": "a\x00b", "NUL at the end": "system:masters\x00", "nothing but NUL": "\x00", "too long": "x" * 9000,
    "too long when escaped": "\u00e9" * 1500,
}  # fmt: skip


OWN_ANSWERS = {"a fragment": {200}, "a query that names it": {200}, "a Service's proxy": {503}}
"""Codes of the attacker's own tenant for paths that do not reach another one."""


@pytest.mark.parametrize("what", TARGETS)
def test_an_oddly_encoded_path_to_another_tenant_is_refused(world: World, what: str) -> None:
    def attack(tenant: str) -> Answer:
        return world.attacker.ask("GET", TARGETS[what].format(tenant))

    # A query or a fragment after a path in the own tenant has no effect: the own answer does no harm. The tenant's own Service
    # has no endpoints.
    own = REFUSED | OWN_ANSWERS.get(what, set())
    assert hint(attack, own) == ""


@pytest.mark.parametrize("name", NAMES)
def test_a_name_without_a_tenant_is_refused_alike(world: World, name: str) -> None:
    answer = world.attacker.ask("GET", f"/tenants/{name}{SECRETS}")
    assert problem(answer) == ""
    if answer.status == 403:
        nobody = world.attacker.ask("GET", f"/tenants/{NOBODY}{SECRETS}")
        assert answer.visible == nobody.visible


@pytest.mark.parametrize(
    "name", ["..", "../../victim/x", "a/b", "%2e%2e", "a\x00b", "a%00", "~vcsync", "/", "A B", "\u202ea"]
)
def test_an_object_named_like_a_path_is_confined_to_its_tenant(world: World, name: str) -> None:
    assert problem(world.attacker.ask("POST", SECRETS, {"metadata": {"name": name}}), frozenset({422})) == ""
    role = {"metadata": {"name": name}, "rules": []}
    answer = world.attacker.ask("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    # Names of roles may contain everything that a path segment can contain.
    wanted = {422} if {"/", "%"} & set(name) or name == ".." else {201, 422}
    assert problem(answer, frozenset(wanted)) == ""


@pytest.mark.parametrize("path", EMPTY)
def test_an_empty_tenant_name_is_refused(world: World, path: str) -> None:
    for door in (world.attacker, world.operator, world.anonymous):
        assert problem(door.ask("GET", path), frozenset({400, 403, 404})) == ""


@pytest.mark.parametrize("what", UNDELETABLE)
@pytest.mark.parametrize("plural", ["clusterroles", "namespaces/default/roles"])
def test_a_name_that_nobody_could_delete_is_refused(world: World, plural: str, what: str) -> None:
    place = f"/apis/rbac.authorization.k8s.io/v1/{plural}"
    body = {"metadata": {"name": UNDELETABLE[what]}, "rules": []}
    assert problem(world.attacker.ask("POST", place, body), frozenset({422})) == ""


@pytest.mark.parametrize("version", ["-1", "x", "1.5", "%00", "9" * 5000])
def test_a_malformed_version_is_a_client_error(world: World, version: str) -> None:
    for path in (f"{SECRETS}?watch=1&resourceVersion={version}", f"{SECRETS}/none?resourceVersion={version}"):
        assert problem(world.attacker.ask("GET", path), frozenset({400})) == ""


@pytest.mark.parametrize("namespace", ["..", "../victim", "victim/default", "default\x00", "%2e%2e"])
def test_a_namespace_named_like_a_path_is_refused(world: World, namespace: str) -> None:
    body = {"metadata": {"name": "x", "namespace": namespace}}
    assert problem(world.attacker.ask("POST", SECRETS, body), frozenset({400})) == ""


@pytest.mark.parametrize(
    "start",
    ["../victim/", "victim/", "../../victim/default/kept-0", "\x00", "~vcsync/tenants/", "\uffff", ""],
)
def test_a_forged_continue_token_is_confined_to_its_tenant(world: World, start: str) -> None:
    for place in (SECRETS, "/api/v1/secrets", "/api/v1/namespaces"):
        for content in ({"v": "meta.k8s.io/v1", "rv": 1, "start": start}, {"start": start}, {"v": start}):
            token = base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
            answer = world.attacker.ask("GET", f"{place}?limit=500&continue={token}")
            assert problem(answer, frozenset({200, 400, 410})) == ""


def test_a_continue_token_of_another_tenant_lists_only_own_objects(world: World) -> None:
    listed = world.victim.ask("GET", "/api/v1/secrets?limit=1").json
    assert MARK in json.dumps(listed)
    token = listed["metadata"]["continue"]
    answer = world.attacker.ask("GET", f"/api/v1/secrets?limit=500&continue={token}")
    assert problem(answer, frozenset({200, 400, 410})) == ""


def test_namespaces_named_like_tenants_are_namespaces(world: World) -> None:
    for name in ("victim", "all", "system", "tenants", ATTACKER):
        assert world.attacker.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).status == 201
        for place in (f"/api/v1/namespaces/{name}/secrets", f"/api/v1/namespaces/{name}/configmaps"):
            answer = world.attacker.ask("GET", place)
            assert problem(answer, frozenset({200})) == ""
            assert answer.json["items"] == []
