"""A tenant's own kube-apiserver asks the Pod scheduler about new Pods: what is promised, given back, and refused."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import ssl
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from placement_kit import SERVICE, addresses, create, created, placed_at_creation
from pool_kit import Json, Pool, Space, container, deployment, pod, quota, read, super_of

from hack.system import SystemFailed
from hack.testbed.processes import free_ports
from tests.real.waiting import eventually
from vcsync.api import names

ROLE = "podscheduler"
ENDPOINT = "192.0.2.7"
"""Address that the leader gives as its own. Nobody uses the Service here."""
CONFIGURATION = (
    f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{names.PLACEMENT_WEBHOOK}"
)


class Asking:
    """Tenant acme, whose control plane asks."""

    def __init__(self, pool: Pool, port: int) -> None:
        self.pool = pool
        self.port = port
        self.tenant = pool.cluster("acme")

    def vcsync(self, *options: str) -> str:
        return self.pool.system.vcsync(
            "tenant", "renew", "acme", "--kubeconfig", str(self.tenant.kubeconfig), *options
        )

    def restart(self) -> None:
        """Start the Pod scheduler, which reads the tokens at once."""
        self.pool.system.start(ROLE)
        eventually(lambda: self.status()["placementWebhook"].startswith("served at"))

    def status(self) -> Json:
        """Return the state of the Pod scheduler."""
        [found] = self.pool.system.status(ROLE)["roles"].values()
        return dict(found)

    def url(self) -> str:
        found = read(self.tenant, CONFIGURATION)
        assert found is not None
        return str(found["webhooks"][0]["clientConfig"]["url"])

    def authority(self) -> bytes:
        found = read(self.tenant, CONFIGURATION)
        assert found is not None
        return base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"])

    def connection(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cadata=self.authority().decode())
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=30)

    def call(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Call the webhook as somebody else than the control plane."""
        connection = self.connection()
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def promised(self) -> int:
        found: int = self.status()["tenants"][self.pool.key("acme")]["promised"]
        return found

    def metric(self, name: str, outcome: str) -> float:
        with urllib.request.urlopen(f"{self.pool.system.endpoint(ROLE)}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
        lines = [
            line
            for line in text.splitlines()
            if line.startswith(f"vcsync_podscheduler_{name}_total{{") and f'outcome="{outcome}"' in line
        ]
        assert len(lines) == 1, text
        return float(lines[0].rpartition(" ")[2])


@pytest.fixture(scope="module")
def asking(pool: Pool) -> Iterator[Asking]:
    """Tenant acme with the webhook, until the tests of this module end."""
    port = free_ports(1)[0]
    pool.system.options[ROLE] = (
        *("--placement-webhook-listen", f"127.0.0.1:{port}"),
        *("--placement-webhook-endpoint", ENDPOINT),
    )
    pool.system.terminate(ROLE)
    found = Asking(pool, port)
    try:
        found.vcsync("--placement-webhook", f"127.0.0.1:{port}")
        found.restart()
        yield found
    finally:
        found.vcsync("--no-placement-webhook")
        assert read(found.tenant, CONFIGURATION) is None
        pool.system.options.clear()
        pool.system.terminate(ROLE)
        pool.system.start(ROLE)


def large(cpu: str) -> Json:
    amounts = {"cpu": cpu, "memory": "16Mi"}
    return {"containers": [container() | {"resources": {"requests": amounts, "limits": amounts}}]}


def writers(found: Json) -> set[str]:
    return {each["manager"] for each in found["metadata"].get("managedFields", ())}


def review(space: Space, uid: str, name: str, cpu: str = "10m") -> bytes:
    """Return a review such as a control plane sends."""
    request = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": space.name,
        "operation": "CREATE",
        "object": pod(name, **large(cpu)),
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(body).encode()


def test_pods_are_created_with_their_super_cluster_and_run_there(asking: Asking, space: Space) -> None:
    name = placed_at_creation(space)
    found = space.running(name)
    assert f"vcsync/{ROLE}" not in writers(found), "the scheduler has nothing to write"
    assert space.there(super_of(found), "pods", name) is not None
    space.apply(deployment("web", 3))
    for each in space.all_running("web", 3):
        assert f"vcsync/{ROLE}" not in writers(each)
    eventually(lambda: asking.promised() == 0)


def test_pods_are_created_and_placed_later_while_the_scheduler_is_down(asking: Asking, space: Space) -> None:
    placed_at_creation(space)
    asking.pool.system.terminate(ROLE)
    try:
        assert created(space, "alone") == ""
    finally:
        asking.restart()
    assert super_of(space.running("alone"))


def test_room_for_a_pod_that_quota_refuses_is_given_back(asking: Asking, space: Space) -> None:
    placed_at_creation(space)
    space.apply(quota({"count/pods": "1"}, name="few"))
    eventually(lambda: (space.get("resourcequotas", "few") or {}).get("status", {}).get("used"))
    before = asking.metric("promises", "placed")
    code, answer = create(space, pod("refused", **large("450m")))
    assert (code, "exceeded quota" in answer["message"]) == (403, True), answer
    assert asking.metric("promises", "placed") == before + 1
    eventually(lambda: asking.promised() == 0)
    space.kubectl("delete", "resourcequota", "few")
    eventually(lambda: create(space, pod("fits", **large("450m")))[0] == 201)
    space.running("fits")


def test_a_dry_run_promises_nothing(asking: Asking, space: Space) -> None:
    placed_at_creation(space)
    eventually(lambda: asking.promised() == 0)
    before = asking.metric("promises", "placed"), asking.metric("promises", "left")
    code, answer = create(space, pod("tried"), "?dryRun=All")
    assert (code, super_of(answer)) == (201, "")
    assert (asking.metric("promises", "placed"), asking.metric("promises", "left")) == before


def test_a_forged_label_gains_nothing(asking: Asking, space: Space) -> None:
    placed_at_creation(space)
    body = pod("forged", labels={names.SUPER_CLUSTER: "nowhere"})
    code, answer = create(space, body)
    assert (code, super_of(answer)) == (201, "nowhere")
    assert super_of(space.running("forged")) in asking.pool.supers


def test_pods_in_namespaces_without_slices_are_left_alone(asking: Asking, pool: Pool) -> None:
    with pool.space() as placed:
        placed_at_creation(placed)
        before = asking.metric("reviews", "left")
        eventually(lambda: asking.promised() == 0)
        assert read(asking.tenant, "/api/v1/namespaces/default/serviceaccounts/default") is not None
        path, body = "/api/v1/namespaces/default/pods", pod("nowhere")
        code, answer = asking.tenant.call("POST", path, body)
        assert (code, super_of(answer)) == (201, "")
        assert asking.metric("reviews", "left") == before + 1
        assert asking.promised() == 0
        asking.tenant.call("DELETE", f"{path}/nowhere?gracePeriodSeconds=0")


def test_whoever_has_no_token_is_refused(asking: Asking, space: Space) -> None:
    placed_at_creation(space)
    eventually(lambda: asking.promised() == 0)
    own = urlsplit(asking.url()).path
    for path in (names.PLACEMENT_PATH, f"{names.PLACEMENT_PATH}{'x' * 43}", own[:-1], f"{own}/", "/"):
        status, _ = asking.call(path, review(space, str(uuid.uuid4()), "forged"))
        assert status == 404, path
    assert asking.promised() == 0


def test_a_call_that_is_repeated_gets_the_same_answer_and_promises_once(asking: Asking, space: Space) -> None:
    placed_at_creation(space)
    path, before = urlsplit(asking.url()).path, asking.metric("promises", "placed")
    body = review(space, str(uuid.uuid4()), "again")
    answers = [asking.call(path, body) for _ in range(5)]
    assert answers == [answers[0]] * 5
    assert "patch" in json.loads(answers[0][1])["response"]
    assert asking.metric("promises", "placed") == before + 1
    eventually(lambda: asking.promised() == 0)


def test_forged_calls_hold_no_more_than_the_slices_and_end(asking: Asking, space: Space) -> None:
    placed_at_creation(space)
    path = urlsplit(asking.url()).path
    with asking.pool.space("umbrella") as other:
        for number in range(50):
            status, _ = asking.call(path, review(space, str(uuid.uuid4()), f"forged-{number}", "200m"))
            assert status == 200
        other.apply(pod("unhindered"))
        other.running("unhindered")
    assert asking.promised() <= 50
    eventually(lambda: asking.promised() == 0)
    space.apply(pod("real"))
    space.running("real")


def test_slow_and_large_calls_end_and_hinder_nobody(asking: Asking, space: Space) -> None:
    placed_at_creation(space)
    path = urlsplit(asking.url()).path
    slow = asking.connection()
    try:
        slow.putrequest("POST", path)
        slow.putheader("Content-Length", "1000")
        slow.endheaders()
        slow.send(b'{"apiVersion"')
        placed_at_creation(space)
        assert slow.getresponse().status == 408
    finally:
        slow.close()
    with suppress(ConnectionError, ssl.SSLError):  # the connection is closed before all is sent
        assert asking.call(path, b" " * (600 * 1024))[0] == 413
    for body in (b"", b"[]", b"{}", b"\xff", b"[" * 10_000):
        assert asking.call(path, body)[0] == 400
    placed_at_creation(space)


def test_a_tenant_that_asks_elsewhere_only_harms_itself(asking: Asking, space: Space) -> None:
    placed_at_creation(space)
    config = [{"op": "replace", "path": "/webhooks/0/clientConfig/url", "value": "https://127.0.0.1:1/x"}]
    asking.tenant.kubectl(
        "patch", "mutatingwebhookconfiguration", names.PLACEMENT_WEBHOOK, "--type=json", "-p", json.dumps(config)
    )  # fmt: skip
    eventually(lambda: created(space, f"e-{uuid.uuid4().hex[:6]}") == "")
    space.apply(pod("elsewhere"))
    assert super_of(space.running("elsewhere"))
    former = asking.url()
    asking.vcsync()
    assert asking.url() != former
    asking.pool.system.terminate(ROLE)
    asking.restart()
    placed_at_creation(space)


def test_a_tenant_that_removes_it_only_harms_itself(asking: Asking, space: Space) -> None:
    placed_at_creation(space)
    asking.tenant.kubectl("delete", "mutatingwebhookconfiguration", names.PLACEMENT_WEBHOOK)
    eventually(lambda: created(space, f"r-{uuid.uuid4().hex[:6]}") == "")
    space.apply(pod("without"))
    assert super_of(space.running("without"))
    asking.vcsync()
    asking.pool.system.terminate(ROLE)
    asking.restart()
    placed_at_creation(space)


def test_a_scheduler_that_does_not_answer_delays_pods_and_loses_none(asking: Asking, space: Space) -> None:
    placed_at_creation(space)
    process = asking.pool.system.pid(ROLE)
    os.kill(process, signal.SIGSTOP)
    try:
        assert created(space, "unanswered") == ""
    finally:
        os.kill(process, signal.SIGCONT)
    assert super_of(space.running("unanswered"))
    eventually(lambda: asking.promised() == 0)
    placed_at_creation(space)


def test_an_answer_that_is_used_again_holds_no_more_than_the_slices(asking: Asking, space: Space) -> None:
    placed_at_creation(space)
    _, body = asking.call(urlsplit(asking.url()).path, review(space, str(uuid.uuid4()), "first"))
    patch = base64.b64decode(json.loads(body)["response"]["patch"]).decode()
    [super_id] = [each for each in asking.pool.supers if f'"{each}"' in patch]
    for number in range(4):
        found = pod(f"again-{number}", labels={names.SUPER_CLUSTER: super_id}, **large("240m"))
        found["metadata"]["annotations"] = {names.SUPER_CLUSTER: super_id}
        code, answer = create(space, found)
        assert (code, super_of(answer)) == (201, super_id)

    def there() -> int:
        found = [each["metadata"]["name"] for each in space.all_there(super_id, "pods")]
        return sum(name.startswith("again-") for name in found)

    eventually(lambda: there() > 0)
    with asking.pool.space("umbrella") as other:
        other.apply(pod("unhindered"))
        other.running("unhindered")
    assert there() * 240 <= 500, "the slice has 500m"
    for number in range(4):
        space.kubectl("delete", "pod", f"again-{number}", "--wait=false")
    eventually(lambda: asking.promised() == 0)


def test_a_review_about_a_namespace_of_another_tenant_promises_nothing_there(
    asking: Asking, pool: Pool, space: Space
) -> None:
    placed_at_creation(space)
    eventually(lambda: asking.promised() == 0)
    with pool.space("umbrella") as other:
        path = urlsplit(asking.url()).path
        status, body = asking.call(path, review(other, str(uuid.uuid4()), "forged"))
        assert (status, "patch" in json.loads(body)["response"]) == (200, False)
        found = asking.status()["tenants"]
        assert (asking.promised(), found[pool.key("umbrella")]["promised"]) == (0, 0)


def test_the_leader_writes_its_address_into_the_service(asking: Asking) -> None:
    meta = asking.pool.bed.meta
    meta.kubectl("apply", "-f", str(SERVICE))
    try:
        eventually(lambda: addresses(meta) == [ENDPOINT])
        meta.kubectl("apply", "-f", str(SERVICE))
        assert addresses(meta) == [ENDPOINT], "an operator who applies the manifests again changes nothing"
    finally:
        meta.kubectl("delete", "-f", str(SERVICE))


def test_no_log_has_the_token(asking: Asking, space: Space) -> None:
    placed_at_creation(space)
    token = asking.url().rpartition("/")[2]
    assert len(token) >= 32
    for role in asking.pool.system.role_names:
        assert token not in asking.pool.system.log(role).read_text()


def test_a_malformed_address_is_refused_with_the_form(asking: Asking) -> None:
    with pytest.raises(SystemFailed, match="--placement-webhook"):
        asking.vcsync("--placement-webhook", "no address")
