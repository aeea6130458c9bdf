"""Bad input of tenants: an Event or condition names the field and the remedy, and other tenants are not affected."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import yaml
from bad_input_kit import CALM_SECONDS, REFUSE, Neighbour, make, policies, post, refuses, remove, writes
from pool_kit import (
    SLICE,
    Json,
    Pool,
    Space,
    annotation,
    condition,
    container,
    items,
    phase,
    pod,
    quota,
    read,
)

from hack.testbed import Cluster, KubectlError
from tests.real.waiting import eventually
from vcsync.api import names

STRANGE = '\x00\x07\x1b[31m\x7f\u0085\u2028\u2029\ufeff é 漢字 \U0001f600 \r\n\t"\\ </script> %s {0} $(HOME)'
LONGEST_NAME = 253
TOKEN_SECRET = (
    f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/secrets/{names.service_account(names.ROLE_SYNCER)}-token"
)
"""Path of the Secret with the token by which a syncer reaches a cluster."""
LARGEST_DATA = 1024 * 1024
FULL = LARGEST_DATA - len("value")


@pytest.fixture(scope="module")
def neighbour(pool: Pool) -> Iterator[Neighbour]:
    """A namespace of the other tenant."""
    with pool.space("umbrella") as space:
        yield Neighbour(space)


@pytest.fixture(scope="module")
def guarded(pool: Pool) -> Iterator[None]:
    """Let both super clusters refuse ConfigMaps and Pods with a certain label."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": policies()})
    for cluster in pool.supers.values():
        cluster.kubectl("apply", "-f", "-", input=text)
    try:
        for cluster in pool.supers.values():
            eventually(lambda cluster=cluster: refuses(cluster, "configmaps"))  # type: ignore[misc]
            eventually(lambda cluster=cluster: refuses(cluster, "pods"))  # type: ignore[misc]
        yield
    finally:
        for cluster in pool.supers.values():
            cluster.kubectl("delete", "--ignore-not-found", "-f", "-", input=text)


def config_map(name: str, data: dict[str, str], **metadata: Any) -> Json:
    """Return a ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": data,
    }


def delete(space: Space, plural: str, name: str) -> None:
    """Delete an object of the tenant; does not wait."""
    code, answer = space.tenant.call("DELETE", f"/api/v1/namespaces/{space.name}/{plural}/{name}")
    assert code in (200, 202), answer


def patch(space: Space, plural: str, name: str, body: Json) -> None:
    """Merge-patch an object of the tenant."""
    path = f"/api/v1/namespaces/{space.name}/{plural}/{name}"
    code, answer = space.tenant.call("PATCH", path, body, 30)
    assert code == 200, answer


def event_message(space: Space, name: str, reason: str) -> str:
    """Wait for an object's Event and return its message, which must not contain the cluster key."""

    def check() -> str:
        found = space.events(name, reason)
        assert found, [(event["reason"], event["message"]) for event in space.events(name)]
        return str(found[-1]["message"])

    message = eventually(check)
    assert space.key not in message
    return message


def stands_everywhere(space: Space, plural: str, name: str) -> list[Json]:
    """Wait until an object exists in each super cluster, and return its copies."""

    def all_there() -> list[Json]:
        found = [space.there(super_id, plural, name) for super_id in space.pool.supers]
        return [each for each in found if each is not None] if None not in found else []

    return eventually(all_there)


def super_writes(pool: Pool, resource: str) -> int:
    """Return the number of creations and changes of a resource in all super clusters."""
    return sum(writes(cluster, resource) for cluster in pool.supers.values())


# Quotas, slices and quantities


def test_a_quota_smaller_than_a_slice_gets_one_slice_and_runs_pods(pool: Pool) -> None:
    space = pool.new_space()
    make(space, json.dumps(SLICE))
    try:
        post(space, "resourcequotas", quota({"cpu": "100m", "memory": "64Mi"}))
        placements = eventually(space.placements)
        assert sum(placements.values()) == 1
        eventually(space.has_account)
        post(space, "pods", pod("small"))
        space.running("small")
    finally:
        remove(space)


BAD_SLICES = {
    "not-json": ("{cpu: 1", "not JSON"),
    "a-list": ('["1","1Gi"]', "not a JSON object"),
    "no-memory": ('{"cpu":"1"}', "field 'memory' is missing"),
    "a-number": ('{"cpu":1,"memory":"1Gi"}', "field 'cpu' must be a string"),
    "no-quantity": ('{"cpu":"one","memory":"1Gi"}', "field 'cpu': 'one' is not a quantity"),
    "negative": ('{"cpu":"-1","memory":"1Gi"}', "field 'cpu': '-1' must be more than zero"),
    "zero": ('{"cpu":"1","memory":"0"}', "field 'memory': '0' must be more than zero"),
    "unknown": ('{"cpu":"1","memory":"1Gi","gpu":"1"}', "unknown field 'gpu'"),
    "strange": (json.dumps({"cpu": STRANGE, "memory": "1Gi"}), "field 'cpu'"),
    "too-small": ('{"cpu":"1m","memory":"1Mi"}', "write a slice of at least cpu 4m, memory"),
    "enormous-text": (json.dumps({"cpu": "9" * 200_000, "memory": "1Gi"}), "field 'cpu'"),
    "deep": ("[" * 100_000, "nested too deep"),
}


def test_unusable_slice_annotations_are_explained_once(pool: Pool, neighbour: Neighbour) -> None:
    with ExitStack() as stack:
        spaces = {}
        for name, (text, _) in BAD_SLICES.items():
            space = spaces[name] = pool.new_space(prefix=name)
            stack.callback(remove, space)
            make(space, text)
            post(space, "resourcequotas", quota({"cpu": "4", "memory": "4Gi"}))
        for name, (_, expected) in BAD_SLICES.items():
            message = event_message(spaces[name], spaces[name].name, "InvalidSlice")
            assert names.SLICE in message, name
            assert expected in message, name
            assert "write " in message, name
        before = writes(spaces["deep"].tenant, "namespaces", "events")
        time.sleep(CALM_SECONDS)
        assert writes(spaces["deep"].tenant, "namespaces", "events") - before <= 2 * len(BAD_SLICES)
        assert all(not space.placements() for space in spaces.values())
        neighbour.runs_a_pod()
        mended = spaces["no-quantity"]
        body = {"metadata": {"annotations": {names.SLICE: json.dumps(SLICE)}}}
        mended.tenant.call("PATCH", f"/api/v1/namespaces/{mended.name}", body)
        eventually(mended.placements)


@pytest.mark.parametrize(
    ("kind", "name", "spec", "field"),
    [
        ("virtualcluster", "acme", {"defaultQuota": {"cpu": "many"}}, "spec.defaultQuota"),
        ("virtualcluster", "acme", {"sliceSize": {"cpu": "1", "memory": "4 GiB"}}, "spec.sliceSize"),
        ("virtualcluster", "acme", {"weight": 0}, "spec.weight"),
        ("supercluster", "r1", {"headroom": {"cpu": "110 %"}}, "spec.headroom"),
        ("supercluster", "r1", {"prices": {"cpu": "cheap"}}, "spec.prices"),
    ],
)
def test_an_operators_unparsable_quantity_is_refused_at_the_field(
    pool: Pool, kind: str, name: str, spec: Json, field: str
) -> None:
    place = ("-n", names.DEFAULT_VC_NAMESPACE) if kind == "virtualcluster" else ()
    with pytest.raises(KubectlError) as refused:
        pool.bed.meta.kubectl("patch", kind, name, *place, "--type=merge", "-p", json.dumps({"spec": spec}))
    assert field in str(refused.value)


# Objects that a super cluster's admission refuses


def test_a_config_map_that_admission_refuses_is_explained_and_retried_with_backoff(
    pool: Pool, space: Space, neighbour: Neighbour, guarded: None
) -> None:
    post(space, "configmaps", config_map("refused", {"a": "b"}, labels={REFUSE: "yes"}))
    needs_it = container(envFrom=[{"configMapRef": {"name": "refused"}}])
    post(space, "pods", pod("needs-it", containers=[needs_it]))
    post(space, "pods", pod("free"))
    message = event_message(space, "refused", "FailedCreate")
    assert f"label {REFUSE}" in message, "the policy's own words name the field"
    assert "change the ConfigMap" in message
    assert "ConfigMap refused" in event_message(space, "needs-it", "WaitsFor")
    space.running("free")
    before = super_writes(pool, "configmaps")
    time.sleep(CALM_SECONDS)
    assert super_writes(pool, "configmaps") - before <= 8  # backing off in both super clusters, not spinning
    assert phase(space.get("pods", "needs-it")) == "Pending"
    neighbour.runs_a_pod()
    patch(space, "configmaps", "refused", {"metadata": {"labels": {REFUSE: None}}})
    space.running("needs-it")


def test_a_pod_that_admission_refuses_is_explained(
    pool: Pool, space: Space, neighbour: Neighbour, guarded: None
) -> None:
    post(space, "pods", pod("refused", labels={REFUSE: "yes"}))
    post(space, "pods", pod("free"))
    message = event_message(space, "refused", "FailedCreate")
    assert f"label {REFUSE}" in message
    assert "change the Pod" in message
    space.running("free")
    before = super_writes(pool, "pods")
    time.sleep(CALM_SECONDS)
    assert super_writes(pool, "pods") - before <= 8  # backing off in both super clusters, not spinning
    neighbour.runs_a_pod()
    delete(space, "pods", "refused")
    eventually(lambda: space.get("pods", "refused") is None)


def test_a_change_that_admission_refuses_is_explained_and_keeps_the_old_object(
    pool: Pool, space: Space, guarded: None
) -> None:
    post(space, "configmaps", config_map("changed", {"a": "1"}))
    stands_everywhere(space, "configmaps", "changed")
    refused = {"data": {"a": "2"}, "metadata": {"labels": {REFUSE: "yes"}}}
    patch(space, "configmaps", "changed", refused)
    message = event_message(space, "changed", "FailedUpdate")
    assert f"label {REFUSE}" in message
    before = super_writes(pool, "configmaps")
    time.sleep(CALM_SECONDS)
    assert super_writes(pool, "configmaps") - before <= 8  # backing off in both super clusters, not spinning
    assert [each["data"] for each in stands_everywhere(space, "configmaps", "changed")] == [{"a": "1"}] * 2
    patch(space, "configmaps", "changed", {"data": {"a": "3"}, "metadata": {"labels": {REFUSE: None}}})
    eventually(
        lambda: all(each["data"] == {"a": "3"} for each in stands_everywhere(space, "configmaps", "changed"))
    )


# Our own names in a tenant's objects


def test_our_labels_annotations_and_finalizers_have_no_effect_when_a_tenant_sets_them(
    pool: Pool, space: Space, neighbour: Neighbour
) -> None:
    finalizer = names.drain_finalizer("r1")
    lies = {
        "labels": {names.CONTROLLED: "false", names.VC_NAME: "umbrella", names.CLUSTER: "umbrella"},
        "annotations": {
            names.CLUSTER: pool.key("umbrella"),
            names.UID: "00000000-0000-0000-0000-000000000000",
            names.NAMESPACE: "kube-system",
            names.VC_NAMESPACE: "elsewhere",
        },
        "finalizers": [finalizer],
    }
    path = f"/api/v1/namespaces/{space.name}/{{}}/liar"
    try:
        made = post(space, "configmaps", config_map("liar", {"a": "b"}, **lies))
        post(space, "pods", pod("liar") | {"metadata": {"name": "liar", **lies}})
        for below in stands_everywhere(space, "configmaps", "liar"):
            metadata = below["metadata"]
            assert metadata["annotations"][names.CLUSTER] == space.key
            assert metadata["annotations"][names.UID] == made["metadata"]["uid"]
            assert metadata["annotations"][names.NAMESPACE] == space.name
            assert metadata["labels"] == {
                names.CONTROLLED: names.TRUE,
                names.VC_NAME: "acme",
                names.VC_NAMESPACE: names.DEFAULT_VC_NAMESPACE,
            }
            assert "finalizers" not in metadata
        message = event_message(space, "liar", "ReservedNames")
        for key in (names.CONTROLLED, names.UID, finalizer):
            assert key in message
        assert "remove " in message

        super_id, liar = space.below("liar")
        assert "finalizers" not in liar["metadata"]
        delete(space, "pods", "liar")
        delete(space, "configmaps", "liar")
        eventually(lambda: space.there(super_id, "pods", "liar") is None)
        before = writes(space.tenant, "pods", verbs=("PATCH", "POST", "DELETE"))
        time.sleep(CALM_SECONDS)
        assert writes(space.tenant, "pods", verbs=("PATCH", "POST", "DELETE")) - before <= 8
        for plural in ("pods", "configmaps"):
            assert space.get(plural, "liar") is not None, (
                "the tenant's finalizer holds it, nobody else takes it off"
            )
            patch(space, plural, "liar", {"metadata": {"finalizers": None}})
            eventually(lambda plural=plural: space.get(plural, "liar") is None)  # type: ignore[misc]
        eventually(lambda: space.there("r1", "configmaps", "liar") is None)
        neighbour.runs_a_pod()
    finally:
        for plural in ("pods", "configmaps"):
            space.tenant.call("PATCH", path.format(plural), {"metadata": {"finalizers": None}})


# Limits


@pytest.fixture
def allowed(pool: Pool) -> Iterator[None]:
    """Let tenant acme have its annotations in super clusters."""
    keys = ["example.com/*", "kkk*"]
    pool.configure("acme", podPolicy={"annotations": keys}, servicePolicy={"annotations": keys})
    yield
    pool.configure("acme", podPolicy={"annotations": None}, servicePolicy={"annotations": None})


@pytest.mark.usefixtures("allowed")
def test_names_labels_and_annotations_at_their_limits_work(pool: Pool) -> None:
    suffix = pool.new_space().name.removeprefix("ns-")
    longest = "a" * (LONGEST_NAME - 7) + "-" + suffix
    with pool.space(name="n" * 56 + "-" + suffix) as space:
        assert len(space.name) == 63
        key = ".".join(["k" * 63] * 3 + ["k" * 61]) + "/" + "l" * 63
        marks = {"labels": {key: "v" * 63}, "annotations": {key: "w" * 200_000}}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": longest}}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": longest, **marks}}
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s" * 63, **marks},
            "spec": {"ports": [{"port": 80}], "selector": {key: "v" * 63}},
        }
        post(space, "serviceaccounts", account)
        post(space, "configmaps", config_map(longest, {"k" * LONGEST_NAME: "v"}, **marks))
        post(space, "secrets", secret)
        post(space, "services", service)
        body = pod(
            longest,
            serviceAccountName=longest,
            containers=[
                container(
                    "c" * 63, envFrom=[{"configMapRef": {"name": longest}}, {"secretRef": {"name": longest}}]
                )
            ],
        )
        body["metadata"] |= marks
        post(space, "pods", body)
        super_id, below = space.below(longest)
        assert below["metadata"]["labels"][key] == "v" * 63
        assert below["metadata"]["annotations"][key] == "w" * 200_000
        assert below["metadata"]["annotations"][names.NAMESPACE] == space.name
        for plural, name in (("configmaps", longest), ("secrets", longest), ("services", "s" * 63)):
            found = space.there(super_id, plural, name)
            assert found is not None
            assert found["metadata"]["labels"][key] == "v" * 63
        delete(space, "pods", longest)
        eventually(lambda: space.get("pods", longest) is None)


@pytest.mark.usefixtures("allowed")
def test_annotations_without_room_for_ours_are_explained(pool: Pool, space: Space) -> None:
    room = 256 * 1024 - len("example.com/full")
    post(space, "configmaps", config_map("full", {}, annotations={"example.com/full": "x" * room}))
    message = event_message(space, "full", "FailedCreate")
    assert "metadata.annotations" in message
    assert "change " in message
    before = super_writes(pool, "configmaps")
    time.sleep(CALM_SECONDS)
    assert super_writes(pool, "configmaps") - before <= 8  # backing off in both super clusters, not spinning


@pytest.mark.parametrize("character", ["x", "<", "漢"])
def test_a_config_map_of_a_megabyte_is_synced_completely(pool: Pool, space: Space, character: str) -> None:
    value = character * (FULL // len(character.encode()))
    post(space, "configmaps", config_map("large", {"value": value}))
    for below in stands_everywhere(space, "configmaps", "large"):
        assert below["data"]["value"] == value
    patch(space, "configmaps", "large", {"data": {"value": "y" + value[1:]}})
    eventually(
        lambda: all(
            each["data"]["value"].startswith("y") for each in stands_everywhere(space, "configmaps", "large")
        )
    )


def test_a_config_map_too_large_to_be_written_is_explained(pool: Pool, neighbour: Neighbour) -> None:
    """A control character uses six bytes in JSON; in two steps a tenant can store more than fits into one request."""
    half = "\x01" * 500_000
    space = pool.new_space()
    make(space, json.dumps(SLICE))
    try:
        post(space, "configmaps", config_map("heavy", {"a": half}))
        patch(space, "configmaps", "heavy", {"data": {"b": half}})
        post(space, "configmaps", config_map("light", {"a": "b"}))
        post(space, "resourcequotas", quota())
        message = event_message(space, "heavy", "FailedCreate")
        assert "shorten data" in message
        assert "binaryData" in message
        stands_everywhere(space, "configmaps", "light")
        before = super_writes(pool, "configmaps")
        time.sleep(CALM_SECONDS)
        assert (
            super_writes(pool, "configmaps") - before <= 8
        )  # backing off in both super clusters, not spinning
        neighbour.runs_a_pod()
        patch(space, "configmaps", "heavy", {"data": {"a": "", "b": "small"}})
        eventually(
            lambda: all(
                each["data"] == {"a": "", "b": "small"}
                for each in stands_everywhere(space, "configmaps", "heavy")
            )
        )
    finally:
        remove(space)


@pytest.mark.usefixtures("allowed")
def test_unicode_and_control_characters_are_synced_unchanged(pool: Pool, space: Space) -> None:
    post(
        space,
        "configmaps",
        config_map("strange", {"text": STRANGE}, annotations={"example.com/text": STRANGE}),
    )
    body = pod("strange", containers=[container(env=[{"name": "TEXT", "value": STRANGE}], args=[STRANGE])])
    body["metadata"]["annotations"] = {"example.com/text": STRANGE}
    post(space, "pods", body)
    for below in stands_everywhere(space, "configmaps", "strange"):
        assert below["data"] == {"text": STRANGE}
        assert annotation(below, "example.com/text") == STRANGE
    _, below = space.below("strange")
    assert annotation(below, "example.com/text") == STRANGE
    main = below["spec"]["containers"][0]
    assert main["args"] == [STRANGE]
    assert {"name": "TEXT", "value": STRANGE} in main["env"]


# Credentials


def credentials_problem(pool: Pool, tenant: str, since: str) -> str:
    """Return the messages of Events on a tenant's VirtualCluster about its credentials since a time (RFC 3339)."""
    path = (
        f"/api/v1/namespaces/{names.DEFAULT_VC_NAMESPACE}/events?fieldSelector=involvedObject.name%3D{tenant}"
    )
    found = [
        event
        for event in items(pool.bed.meta, path)
        if event["reason"] == "CredentialsRefused" and event["lastTimestamp"] >= since
    ]
    return str(found[-1]["message"]) if found else ""


def shown_error(pool: Pool, role: str, tenant: str) -> str:
    """Return the problem of a tenant on a role's status page."""
    [shown] = pool.system.status(role)["roles"].values()
    return next(str(each["last_error"]) for each in shown["tenants"] if each["key"] == pool.key(tenant))


def renew_token(pool: Pool, cluster: Cluster, stored: str) -> None:
    """Create a new token for a cluster's syncer, and store it in the kubeconfig in the meta cluster.

    Args:
        pool: the system.
        cluster: a tenant or super cluster.
        stored: path of the Secret with the kubeconfig.
    """
    account = names.service_account(names.ROLE_SYNCER)
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"{account}-token",
            "annotations": {"kubernetes.io/service-account.name": account},
        },
        "type": "kubernetes.io/service-account-token",
    }
    code, answer = cluster.call("POST", TOKEN_SECRET.rpartition("/")[0], body)
    assert code == 201, answer
    made = eventually(lambda: (read(cluster, TOKEN_SECRET) or {}).get("data", {}).get("token"))
    secret = read(pool.bed.meta, stored)
    assert secret is not None
    kubeconfig = yaml.safe_load(base64.b64decode(secret["data"][names.KUBECONFIG_KEY]))
    kubeconfig["users"][0]["user"]["token"] = base64.b64decode(made).decode()
    text = base64.b64encode(yaml.safe_dump(kubeconfig).encode()).decode()
    code, answer = pool.bed.meta.call("PATCH", stored, {"data": {names.KUBECONFIG_KEY: text}})
    assert code == 200, answer


def test_revoked_credentials_are_reported_affect_no_other_tenant_and_are_replaced_without_a_restart(
    pool: Pool, space: Space
) -> None:
    umbrella = pool.bed.tenants["umbrella"]
    role = names.ROLE_SYNCER
    stored = f"/api/v1/namespaces/{pool.key('umbrella')}/secrets/{names.role_secret(role)}"
    pids = [pool.system.pid(name) for name in pool.system.role_names]
    with pool.space("umbrella") as theirs:
        for super_id in pool.supers:
            post(theirs, "pods", pod(f"busy-{super_id}", on=super_id))
            theirs.running(f"busy-{super_id}")
        code, answer = umbrella.call("DELETE", TOKEN_SECRET)
        assert code == 200, answer
        try:
            the_refusal_is_shown_and_nobody_else_notices(pool, space, role)
        finally:
            renew_token(pool, umbrella, stored)
        post(theirs, "pods", pod("again"))
        theirs.running("again", 120)
    for super_id in pool.supers:
        eventually(lambda super_id=super_id: "401" not in shown_error(pool, f"syncer-{super_id}", "umbrella"))  # type: ignore[misc]
    assert pids == [pool.system.pid(name) for name in pool.system.role_names], "nothing was restarted"


def the_refusal_is_shown_and_nobody_else_notices(pool: Pool, space: Space, role: str) -> None:
    umbrella = pool.bed.tenants["umbrella"]
    secret = f"{pool.key('umbrella')}/{names.role_secret(role)}"
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    message = eventually(lambda: credentials_problem(pool, "umbrella", since), 120)
    assert secret in message
    assert "401" in message
    assert "put " in message
    assert f"umbrella  CredentialsRefused  {message}" in pool.system.vcsync("status")
    for super_id in pool.supers:
        eventually(lambda super_id=super_id: "401" in shown_error(pool, f"syncer-{super_id}", "umbrella"))  # type: ignore[misc]
    post(space, "pods", pod("of-another"))
    space.running("of-another")
    asked = writes(umbrella, "", verbs=("GET", "LIST", "WATCH", "POST", "PATCH"), code="401")
    time.sleep(CALM_SECONDS)
    again = writes(umbrella, "", verbs=("GET", "LIST", "WATCH", "POST", "PATCH"), code="401")
    assert again - asked <= 60, "two syncers with a dozen watches each, backing off"


def reachable(pool: Pool, super_id: str) -> Json:
    """Return the condition Reachable of a super cluster."""
    return condition(read(pool.bed.meta, f"/apis/{names.API_VERSION}/superclusters/{super_id}"), "Reachable")


def health(pool: Pool, super_id: str) -> Json:
    """Return a super cluster's health from `vcsync super list`."""
    shown = json.loads(pool.system.vcsync("super", "list", "-o", "json"))
    found: Json = next(each["health"] for each in shown if each["name"] == super_id)
    return found


def readiness(pool: Pool, role: str) -> tuple[bool, str]:
    """Return whether a role's `/readyz` succeeds, and its text."""
    try:
        with urllib.request.urlopen(f"{pool.system.endpoint(role)}/readyz", timeout=60) as answer:
            return True, answer.read().decode()
    except urllib.error.HTTPError as error:
        return False, error.read().decode()


def test_a_super_clusters_revoked_credentials_are_reported_and_replaced_without_a_restart(
    pool: Pool, space: Space
) -> None:
    r1 = pool.supers["r1"]
    stored = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/secrets/{names.super_secret('r1')}"
    assert reachable(pool, "r1")["status"] == "True"
    pid = pool.system.pid("syncer-r1")
    code, answer = r1.call("DELETE", TOKEN_SECRET)
    assert code == 200, answer
    try:
        shown = eventually(
            lambda: found if (found := reachable(pool, "r1"))["status"] == "False" else {}, 120
        )
        assert "401" in shown["message"]
        assert "put a valid kubeconfig into the Secret" in shown["message"]
        assert health(pool, "r1")["state"] == "Suspect"
        assert "401" in health(pool, "r1")["reason"]
        ready, reason = readiness(pool, "syncer-r1")
        assert not ready
        assert "super cluster r1: the super cluster does not answer" in reason
        ready, reason = readiness(pool, "nsscheduler")
        assert ready, "it works on for the others"
        assert "leading, but super cluster r1 is suspect: " in reason
        post(space, "pods", pod("elsewhere", on="r2"))
        space.running("elsewhere")
    finally:
        renew_token(pool, r1, stored)
    eventually(lambda: reachable(pool, "r1")["status"] == "True", 180)
    assert pool.system.pid("syncer-r1") == pid
    assert health(pool, "r1") == {"state": "Ready", "reason": ""}
    eventually(lambda: readiness(pool, "syncer-r1")[0], 60)
