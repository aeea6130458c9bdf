"""Webhooks of a tenant with TLS and kubectl: admission, conversion, and addresses that are not allowed."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubectl_kit import Kubectl, behind_a_service

from hack.embedded import ControlPlane
from hack.webhooks import WebhookServer
from tests.real.waiting import eventually
from vcsync.apiserver.operator.folder import own_address

CLUSTER_NETWORK = own_address()
"""Where the Pods of these tests are: this machine, seen from outside."""
REFUSED = "the operator of this server does not allow it to be called"
EFFECT_SECONDS = 60.0
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def hooks() -> Iterator[WebhookServer]:
    with WebhookServer(["hooks.gadgets.svc", CLUSTER_NETWORK], address="0.0.0.0") as server:
        yield server


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    allowed = (
        "--webhook-allow-host", "127.0.0.1:*",
        "--webhook-allow-host", "localhost:*",
        "--webhook-allow-network", "127.0.0.1/32",
        "--webhook-allow-network", f"open={CLUSTER_NETWORK}/32",
    )  # fmt: skip
    with ControlPlane(tmp_path_factory.mktemp("plane"), arguments=allowed) as found:
        yield found


@pytest.fixture(scope="module")
def kubectl(plane: ControlPlane) -> Kubectl:
    return Kubectl(plane.create("open"))


@pytest.fixture
def namespace(kubectl: Kubectl) -> Iterator[str]:
    name = f"webhooks-{next(_NUMBERS)}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "--all")


def configuration(sort: str, namespace: str, hooks: WebhookServer, *paths: str, **changes: Any) -> Any:
    """Webhooks for all ConfigMaps of a namespace that are labelled with their path."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{sort}WebhookConfiguration",
        "metadata": {"name": f"{namespace}-{sort.lower()}"},
        "webhooks": [
            {
                "name": f"{path}.example.org",
                "clientConfig": {"url": f"{hooks.url}/{path}", "caBundle": hooks.bundle},
                "rules": [
                    {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "objectSelector": {"matchLabels": {"hook": path}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                **changes,
            }
            for path in paths
        ],
    }  # fmt: skip


def config_map(name: str, namespace: str, hook: str) -> Any:
    metadata = {"name": name, "namespace": namespace, "labels": {"hook": hook}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def in_effect(kubectl: Kubectl, namespace: str) -> None:
    """Wait until the webhook `deny` is called."""
    given = config_map("probe", namespace, "deny")
    eventually(lambda: kubectl.run("create", "--dry-run=server", given=given).returncode != 0)


def test_objects_are_changed_and_refused(kubectl: Kubectl, hooks: WebhookServer, namespace: str) -> None:
    kubectl("apply", given=configuration("Mutating", namespace, hooks, "label", "data"))
    kubectl("apply", given=configuration("Validating", namespace, hooks, "deny", "warn"))
    in_effect(kubectl, namespace)
    output = kubectl.refused("apply", given=config_map("a", namespace, "deny"))
    assert 'admission webhook "deny.example.org" denied the request: you shall not pass' in output
    assert "Warning: beware" in kubectl.run("apply", given=config_map("b", namespace, "warn")).stderr
    kubectl("apply", given=config_map("c", namespace, "label"))
    assert kubectl.json("get", "-n", namespace, "configmap", "c")["metadata"]["labels"]["touched"] == "yes"
    kubectl("apply", "--server-side", given=config_map("d", namespace, "data"))
    assert kubectl.json("get", "-n", namespace, "configmap", "d")["data"] == {"made": "by webhook"}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("500", 'an error on the server ("boom") has prevented the request from succeeding'),
        ("slow", "context deadline exceeded"),
        ("redirect", "redirects are not followed"),
        ("elsewhere", "redirects are not followed"),
        ("huge", "the answer is larger than"),
        ("wrong-uid", "received invalid webhook response: expected response.uid="),
    ],
)
def test_failures_follow_the_policy(
    kubectl: Kubectl, hooks: WebhookServer, namespace: str, path: str, message: str
) -> None:
    seconds = 1 if path == "slow" else 10
    kubectl(
        "apply", given=configuration("Validating", namespace, hooks, "deny", path, timeoutSeconds=seconds)
    )
    in_effect(kubectl, namespace)
    assert message in kubectl.refused("create", given=config_map("a", namespace, path))
    ignored = {"op": "add", "path": "/webhooks/1/failurePolicy", "value": "Ignore"}
    name = f"{namespace}-validating"
    kubectl("patch", "validatingwebhookconfiguration", name, "--type=json", "-p", json.dumps([ignored]))
    given = config_map("a", namespace, path)
    eventually(lambda: kubectl.run("create", "--dry-run=server", given=given).returncode == 0)
    kubectl("create", given=given)


GADGETS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.parts.example.org}
spec:
  group: parts.example.org
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {namespace: gadgets, name: hooks, path: /convert}}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
      hostPort: {type: string}, size: {type: integer, default: 3}}}}}}
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
      host: {type: string}, port: {type: string}, size: {type: integer, default: 3}}}}}}
"""


def in_the_cluster(kubectl: Kubectl, hooks: WebhookServer) -> None:
    """Put the webhook server behind a Service, like a Pod of a Deployment."""
    behind_a_service(kubectl, "gadgets", "hooks", CLUSTER_NETWORK, hooks.port)


def test_an_operator_brings_its_own_kind_with_webhooks(
    kubectl: Kubectl, hooks: WebhookServer, plane: ControlPlane
) -> None:
    """Like cert-manager: a kind with conversion, defaulting and validating webhooks, whose CAs are injected later."""
    in_the_cluster(kubectl, hooks)
    kubectl("apply", given=yaml.safe_load(GADGETS))
    kubectl("wait", "--for=condition=Established", "crd/gadgets.parts.example.org", "--timeout=20s")
    own = {
        "rules": [
            {"operations": ["CREATE"], "apiGroups": ["parts.example.org"], "apiVersions": ["v1"], "resources": ["gadgets"]}
        ],
        "objectSelector": {},
    }  # fmt: skip
    for sort, path in (("Mutating", "annotate"), ("Validating", "allow")):
        service = {"namespace": "gadgets", "name": "hooks", "path": f"/{path}"}
        made = configuration(sort, "gadgets", hooks, path, clientConfig={"service": service}, **own)
        kubectl("apply", given=made)
    gadget = {
        "apiVersion": "parts.example.org/v1",
        "kind": "Gadget",
        "metadata": {"name": "g", "namespace": "gadgets"},
        "spec": {"hostPort": "example.org:80"},
    }
    unknown = "x509: certificate signed by unknown authority"
    eventually(lambda: unknown in kubectl.run("create", "--dry-run=server", given=gadget).stderr)
    bundle = json.dumps([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": hooks.bundle}])
    for sort in ("mutating", "validating"):
        kubectl("patch", f"{sort}webhookconfiguration", f"gadgets-{sort}", "--type=json", "-p", bundle)
    eventually(lambda: kubectl.run("create", "--dry-run=server", given=gadget).returncode == 0)
    kubectl("create", given=gadget)
    asked = [review["request"] for path, review in hooks.asked if path == "/allow"]
    assert asked[-1]["object"]["spec"] == {"hostPort": "example.org:80", "size": 3}
    assert asked[-1]["object"]["metadata"]["annotations"] == {"seen": "yes"}

    newer = "gadgets.v2.parts.example.org"
    output = kubectl.refused("get", newer, "g", "-n", "gadgets")
    assert "conversion webhook for parts.example.org/v1, Kind=Gadget failed: Post" in output
    assert unknown in output
    injected = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": hooks.bundle}}}}}
    kubectl("patch", "crd", "gadgets.parts.example.org", "--type=merge", "-p", json.dumps(injected))
    eventually(lambda: kubectl.run("get", newer, "g", "-n", "gadgets").returncode == 0)
    converted = {"host": "example.org", "port": "80", "size": 3}
    assert kubectl.json("get", newer, "g", "-n", "gadgets")["spec"] == converted
    assert [each["spec"] for each in kubectl.json("get", newer, "-A")["items"]] == [converted]
    watched = kubectl.run("get", newer, "-n", "gadgets", "-w", "-o", "json", "--request-timeout=2s").stdout
    assert json.loads(watched)["spec"] == converted

    made = {**gadget, "apiVersion": "parts.example.org/v2", "metadata": {"name": "h", "namespace": "gadgets"}}
    made["spec"] = {"host": "a", "port": "1"}
    kubectl("apply", "--server-side", given=made)
    older = kubectl.json("get", "gadgets.v1.parts.example.org", "h", "-n", "gadgets")
    assert older["spec"] == {"hostPort": "a:1", "size": 3}
    assert older["metadata"]["annotations"] == {"seen": "yes"}, "rules for v1 hold for what comes as v2"

    kubectl(
        "delete",
        "mutatingwebhookconfiguration/gadgets-mutating",
        "validatingwebhookconfiguration/gadgets-validating",
    )
    assert "resources:" not in kubectl("explain", "gadgets.spec", "--api-version=parts.example.org/v2")
    elsewhere = Kubectl(plane.create("closed"))
    in_the_cluster(elsewhere, hooks)
    elsewhere("apply", given=yaml.safe_load(GADGETS))
    elsewhere("wait", "--for=condition=Established", "crd/gadgets.parts.example.org", "--timeout=20s")
    elsewhere("create", given=gadget)
    assert REFUSED in elsewhere.refused("get", newer, "g", "-n", "gadgets")


@pytest.mark.parametrize("path", ["convert-renamed", "convert-unlabelled", "convert-not", "500", "text"])
def test_an_invalid_conversion_is_reported(kubectl: Kubectl, hooks: WebhookServer, path: str) -> None:
    message = {
        "convert-renamed": "returned invalid object: must have the same name: g != other",
        "convert-unlabelled": "returned invalid metadata: metadata.labels: Invalid value",
        "convert-not": "failed: not today",
        "500": 'failed: an error on the server ("boom") has prevented the request from succeeding',
        "text": "failed: couldn't get version/kind; json parse error",
    }[path]
    group = f"{path}.example.org"
    definition = yaml.safe_load(GADGETS.replace("parts.example.org", group))
    webhook = definition["spec"]["conversion"]["webhook"]
    webhook["clientConfig"] = {"url": f"{hooks.url}/{path}", "caBundle": hooks.bundle}
    kubectl("apply", given=definition)
    kubectl("wait", "--for=condition=Established", f"crd/gadgets.{group}", "--timeout=20s")
    kubectl(
        "create",
        given={
            "apiVersion": f"{group}/v1",
            "kind": "Gadget",
            "metadata": {"name": "g", "namespace": "default"},
        },
    )
    for arguments in ((f"gadgets.v2.{group}", "g"), (f"gadgets.v2.{group}",)):
        said = kubectl.refused("get", *arguments, "-n", "default")
        assert f"conversion webhook for {group}/v1, Kind=Gadget" in said
        assert message in said


def test_addresses_that_are_not_allowed_give_the_same_error_open_or_closed(
    tmp_path: Path, hooks: WebhookServer
) -> None:
    """Without flags nothing is called, and the errors do not reveal which addresses listen."""
    with ControlPlane(tmp_path) as plane:
        kubectl = Kubectl(plane.create("scanner"))
        made = configuration("Validating", "default", hooks, "deny", "allow", "closed", "name", "metadata")
        urls = [
            hooks.url,
            hooks.url,
            "https://127.0.0.1:1",
            "https://no.such.name.invalid",
            "https://169.254.169.254",
        ]
        for hook, url in zip(made["webhooks"], urls, strict=True):
            hook["clientConfig"]["url"] = f"{url}/x"
        kubectl("apply", given=made)
        in_effect(kubectl, "default")
        outputs = set()
        for path, url in zip(("allow", "closed", "name", "metadata"), urls[1:], strict=True):
            said = kubectl.refused("create", given=config_map("a", "default", path))
            outputs.add(said.replace(url, "URL").replace(f"{path}.example.org", "HOOK"))
        (said,) = outputs
        assert (
            f'failed calling webhook "HOOK": failed to call webhook: Post "URL/x?timeout=10s": {REFUSED}'
            in said
        )
    assert not any(path == "/x" for path, _ in hooks.asked)
