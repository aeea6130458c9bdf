"""Super cluster and Pod of a stream, and the part of a refusal that a tenant may read."""

from typing import Any

import msgspec
import pytest

from vcsync.api import names
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.kubelets import super_pods
from vcsync.apiserver.kubelets.location import PodPlace
from vcsync.apiserver.kubelets.super_pods import StreamRequest
from vcsync.streams import refusals

KEY = "vcsync-abcdef-acme"
OURS = {names.CLUSTER: KEY, names.NAMESPACE: "shop", names.UID: "u1"}


def pod(node: str = "node-0.r1", *containers: str) -> PodPlace:
    spec = {"nodeName": node, "containers": [{"name": each} for each in containers or ("c",)]}
    return msgspec.convert({"metadata": {"uid": "u1"}, "spec": spec}, PodPlace)


@pytest.mark.parametrize(
    ("node", "super_id"),
    [
        ("node-0.r1", "r1"),
        ("ip-10-0-0-1.example.org.r1", "r1"),
        ("", ""),
        ("mine", ""),
        (".r1", ""),
        ("node-0.", ""),
        ("node-0.R1", ""),
        ("node-0.../r1", ""),
        ("node-0.r1/../../secrets", ""),
        ("node-0." + "x" * 58, ""),
    ],
)
def test_the_name_of_the_node_names_the_super_cluster(node: str, super_id: str) -> None:
    assert StreamRequest("p", "u1", node, "log", "").super_id == super_id


def test_the_container_of_a_log_is_always_named() -> None:
    asked = super_pods.log_request(pod(), "p", "", [("follow", "true"), ("tailLines", "3")])
    assert asked == StreamRequest("p", "u1", "node-0.r1", "log", "container=c&follow=true&tailLines=3")


@pytest.mark.parametrize(
    ("action", "query", "sent"),
    [
        ("exec", {"command": ["a b", "&c=d"], "stdin": ["true"], "stdout": ["1"], "stderr": ["false"]},
         "container=c&stdin=true&stdout=true&command=a+b&command=%26c%3Dd"),
        ("exec", {"command": ["ls"], "container": ["c"], "tty": ["true"], "limit": ["1"], "as": ["root"]},
         "container=c&tty=true&command=ls"),
        ("attach", {"stdout": ["true"], "command": ["ls"]}, "container=c&stdout=true"),
        ("portforward", {"ports": ["80,81", "82"], "container": ["x"]}, "ports=80&ports=81&ports=82"),
        ("portforward", {}, ""),
    ],
)  # fmt: skip
def test_only_known_parameters_are_sent(action: str, query: Any, sent: str) -> None:
    assert super_pods.stream_request(pod(), "p", action, query).query == sent


@pytest.mark.parametrize(
    ("node", "query", "message"),
    [
        ("node-0.r1", {"container": ["../../secrets"]}, "container ../../secrets is not valid for pod p"),
        ("node-0.r1", {"container": ["c?as=x"]}, "container c?as=x is not valid for pod p"),
        ("", {}, "pod p does not have a host assigned"),
    ],
)
def test_requests_are_refused_as_by_kube_apiserver(node: str, query: Any, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        super_pods.stream_request(pod(node), "p", "exec", query)
    assert (caught.value.code, caught.value.message) == (400, message)


@pytest.mark.parametrize(
    ("annotations", "is_copy"),
    [
        (OURS, True),
        ({}, False),
        (OURS | {names.CLUSTER: "vcsync-abcdef-evil"}, False),
        (OURS | {names.NAMESPACE: "other"}, False),
        (OURS | {names.UID: "u0"}, False),
        ({names.CLUSTER: KEY, names.NAMESPACE: "shop"}, False),
    ],
)
def test_a_copy_names_tenant_namespace_and_uid(annotations: dict[str, str], is_copy: bool) -> None:
    assert super_pods.is_copy(annotations, KEY, "shop", "u1") is is_copy


def test_a_pod_without_a_uid_has_no_copy() -> None:
    assert not super_pods.is_copy({names.CLUSTER: KEY, names.NAMESPACE: "shop"}, KEY, "shop", "")


def status(message: str) -> str:
    return msgspec.json.encode({"kind": "Status", "message": message}).decode()


@pytest.mark.parametrize(
    ("code", "body", "answer"),
    [
        (400, status('container "c" in pod "p" is waiting to start: ContainerCreating'),
         (400, 'container "c" in pod "p" is waiting to start: ContainerCreating')),
        (400, status('container "c" in pod "p" is waiting to start: trying and failing to pull image'),
         (400, 'container "c" in pod "p" is waiting to start: trying and failing to pull image')),
        (400, status('previous terminated container "c" in pod "p" not found'),
         (400, 'previous terminated container "c" in pod "p" not found')),
        (404, 'unable to upgrade connection: container not found ("c")\n', (404, 'container not found ("c")')),
        (500, 'container not found ("c")', (500, 'Internal error occurred: container not found ("c")')),
        (404, "pod does not exist", (404, "pod does not exist")),
    ],
)  # fmt: skip
def test_messages_of_kubelets_about_the_pod_are_passed_on(
    code: int, body: str, answer: tuple[int, str]
) -> None:
    refusal = super_pods.refused(refusals.refusal("r1", code, body, "p"), "p")
    assert (refusal.code, refusal.message) == answer


SECRETS = ("10.0.0.5", "vcsync-abcdef-acme", "worker-7", "vcsync-system", "token")


@pytest.mark.parametrize(
    ("code", "message", "answered"),
    [
        (401, "Unauthorized: token expired", 503),
        (403, 'pods "p" is forbidden: User "system:serviceaccount:vcsync-system:vcsync-streams" cannot', 503),
        (404, 'namespaces "vcsync-abcdef-acme-shop" not found', 404),
        (404, 'nodes "worker-7" not found', 404),
        (429, "token bucket of worker-7", 429),
        (500, 'Get "https://10.0.0.5:10250/containerLogs/vcsync-abcdef-acme-shop/p/c": dial tcp 10.0.0.5', 500),
        (500, "Internal error occurred: error dialing backend: dial tcp 10.0.0.5:10250: i/o timeout", 500),
        (400, 'container "c" in pod "p" is waiting to start: on worker-7 at 10.0.0.5', 400),
        (502, "<html>10.0.0.5</html>", 502),
        (200, "10.0.0.5", 502),
        (302, "see https://10.0.0.5", 502),
        (999, "10.0.0.5", 502),
    ],
)  # fmt: skip
@pytest.mark.parametrize("wrapped", [True, False])
def test_nothing_of_the_super_cluster_is_passed_on(
    code: int, message: str, answered: int, wrapped: bool
) -> None:
    refusal = super_pods.refused(
        refusals.refusal("r1", code, status(message) if wrapped else message, "p"), "p"
    )
    assert refusal.code == answered
    assert not [each for each in SECRETS if each in str(refusal.status())]
