"""CertificateSigningRequests: approval of kubelets' requests, signing, and deletion of old requests."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from controllers_world import NAMESPACE, World
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from vcsync.controllers.certificates.certificates_plan import APPROVING, CLEANING, signing
from vcsync.controllers.framework.worker import ReconcileContext, Worker
from vcsync.kube.errors import Conflict, KubeError, NotFound, Status
from vcsync.kube.resources import CERTIFICATE_SIGNING_REQUESTS as REQUESTS
from vcsync.kube.resources import Resource
from vcsync.objects.merge_patch import merge_patch

KEY = ec.generate_private_key(ec.SECP256R1())
KUBELET = {
    "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
    "usages": ["client auth", "digital signature"],
}
CLIENT = {"signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}
APPROVED = {"type": "Approved", "status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z"}


def asked(user: str, group: str = "system:nodes") -> str:
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, user)]
    )
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(KEY, hashes.SHA256())
    return base64.b64encode(request.public_bytes(Encoding.PEM)).decode()


class Server:
    """The control plane as controllers use it; records all requests."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.may: set[str] = set()
        self.reviewed: list[dict[str, Any]] = []
        self.answers: dict[str, str] | KubeError = {"certificate": "PEM"}
        self.signed: list[tuple[str, Any]] = []

    async def create_raw(self, resource: Resource, body: dict[str, Any]) -> bytes:
        assert resource.plural == "subjectaccessreviews"
        self.reviewed.append(body["spec"])
        allowed = body["spec"]["resourceAttributes"]["subresource"] in self.may
        return msgspec.json.encode({"status": {"allowed": allowed}})

    async def request(self, method: str, path: str, *, body: bytes) -> bytes:
        self.signed.append((f"{method} {path}", msgspec.json.decode(body)))
        if isinstance(self.answers, KubeError):
            raise self.answers
        return msgspec.json.encode(self.answers)

    async def patch(self, resource: Resource, name: str, patch: dict[str, Any], *, subresource: str) -> None:
        there = self.world.body(resource, name)
        wanted = patch["metadata"]
        assert wanted["uid"] == there["metadata"]["uid"]
        if wanted["resourceVersion"] != there["metadata"]["resourceVersion"]:
            raise Conflict(Status(409, "Conflict"))
        assert subresource == ("status" if "certificate" in patch["status"] else subresource)
        status = merge_patch(there.get("status", {}), patch["status"])
        self.world.put(resource, {**there, "status": status, "written": subresource})


@pytest.fixture
def world() -> World:
    return World([CLEANING])


@pytest.fixture
def server(world: World) -> Server:
    return Server(world)


def put(world: World, spec: dict[str, Any], **status: Any) -> None:
    body = {
        "metadata": {"name": "one"},
        "spec": {"request": asked("system:node:a"), **spec},
        "status": status,
    }
    world.put(REQUESTS, body)


async def work(controller: Worker, world: World, server: Server) -> float | None:
    return await controller.work(ReconcileContext(world.view(), server), world.key("", "one"))  # type: ignore[arg-type]


def status(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.body(REQUESTS, "one", NAMESPACE).get("status", {})
    return found


@pytest.mark.parametrize(
    ("user", "may", "message"),
    [
        ("system:node:a", "selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."),
        ("system:node:a", "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."),
        ("bootstrapper", "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."),
    ],
)  # fmt: skip
async def test_a_kubelets_request_is_approved_if_permitted(
    world: World, server: Server, user: str, may: str, message: str
) -> None:
    put(world, {**KUBELET, "username": user, "groups": ["g"], "extra": {"k": ["v"]}})
    server.may = {may}
    assert await work(APPROVING, world, server) is None
    assert status(world)["conditions"] == [
        {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message}
    ]
    assert world.body(REQUESTS, "one")["written"] == "approval"
    assert server.reviewed[-1] == {
        "user": user,
        "groups": ["g"],
        "extra": {"k": ["v"]},
        "resourceAttributes": {
            "group": "certificates.k8s.io",
            "resource": "certificatesigningrequests",
            "subresource": may,
            "verb": "create",
            "version": "*",
        },
    }


async def test_a_missing_permission_is_checked_again_with_growing_pauses(
    world: World, server: Server
) -> None:
    put(world, {**KUBELET, "username": "bootstrapper"})
    waits = []
    for _ in range(12):
        wait = await work(APPROVING, world, server)
        assert wait is not None
        waits.append(wait)
        world.pass_time(wait)
    assert waits[:4] == [1, 1, 2, 4]
    assert waits[-1] == 1000
    assert {each["resourceAttributes"]["subresource"] for each in server.reviewed} == {"nodeclient"}
    assert status(world) == {}


@pytest.mark.parametrize(
    ("spec", "conditions"),
    [
        (CLIENT, []),
        ({**KUBELET, "signerName": "kubernetes.io/kubelet-serving"}, []),
        ({**KUBELET, "usages": ["client auth"]}, []),
        ({**KUBELET, "request": "bm9uZQ=="}, []),
        (KUBELET, [{"type": "Denied"}]),
        (KUBELET, [{"type": "Approved"}]),
    ],
)
async def test_other_requests_are_not_approved(
    world: World, server: Server, spec: dict[str, Any], conditions: list[Any]
) -> None:
    put(world, {**spec, "username": "system:node:a"}, conditions=conditions)
    server.may = {"nodeclient", "selfnodeclient"}
    assert await work(APPROVING, world, server) is None
    assert not server.reviewed
    assert status(world)["conditions"] == conditions


async def test_an_approved_request_is_signed_by_the_control_plane(world: World, server: Server) -> None:
    put(world, CLIENT, conditions=[APPROVED])
    uid = world.body(REQUESTS, "one")["metadata"]["uid"]
    assert await work(signing(server), world, server) is None  # type: ignore[arg-type]
    assert server.signed == [("POST /vcsync/v1/tenants/acme/certificates", {"name": "one", "uid": uid})]
    assert status(world) == {"conditions": [APPROVED], "certificate": base64.b64encode(b"PEM").decode()}
    await work(signing(server), world, server)  # type: ignore[arg-type]
    assert len(server.signed) == 1


async def test_a_refused_signature_fails_the_request_with_the_reason(world: World, server: Server) -> None:
    put(world, CLIENT, conditions=[APPROVED])
    server.answers = {"failure": "invalid usage for client certificate: server auth"}
    await work(signing(server), world, server)  # type: ignore[arg-type]
    assert status(world)["conditions"] == [
        APPROVED,
        {
            "type": "Failed",
            "status": "True",
            "reason": "SignerValidationFailure",
            "message": "invalid usage for client certificate: server auth",
        },
    ]
    await work(signing(server), world, server)  # type: ignore[arg-type]
    assert len(server.signed) == 1


@pytest.mark.parametrize("error", [Conflict, NotFound])
async def test_a_request_that_changed_meanwhile_is_not_changed(
    world: World, server: Server, error: type[Conflict | NotFound]
) -> None:
    put(world, CLIENT, conditions=[APPROVED])
    server.answers = error(Status(409))
    assert await work(signing(server), world, server) is None  # type: ignore[arg-type]
    assert status(world) == {"conditions": [APPROVED]}


@pytest.mark.parametrize(
    ("spec", "conditions"),
    [
        (CLIENT, []),
        (CLIENT, [{"type": "Approved", "status": "False"}]),
        (CLIENT, [APPROVED, {"type": "Failed", "status": "True"}]),
        (CLIENT, [APPROVED, {"type": "Denied", "status": "True"}]),
        ({**CLIENT, "signerName": "example.com/mine"}, [APPROVED]),
    ],
)
async def test_unapproved_failed_and_foreign_requests_are_not_signed(
    world: World, server: Server, spec: dict[str, Any], conditions: list[Any]
) -> None:
    put(world, spec, conditions=conditions)
    assert await work(signing(server), world, server) is None  # type: ignore[arg-type]
    assert not server.signed


def certificate(ends: datetime) -> str:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(ends - timedelta(days=2))
        .not_valid_after(ends)
        .sign(KEY, hashes.SHA256())
    )
    return base64.b64encode(made.public_bytes(Encoding.PEM)).decode()


HOUR, DAY = 3600, 24 * 3600
LATER = certificate(datetime(2027, 1, 1, tzinfo=UTC))
SOON = certificate(datetime(2026, 1, 1, 0, 10, tzinfo=UTC))


@pytest.mark.parametrize(
    ("kinds", "issued", "kept"),
    [
        ([], "", DAY),
        (["Approved"], LATER, HOUR),
        (["Approved"], SOON, 600),
        (["Approved"], "eA==", HOUR),
        (["Approved"], "", DAY),
        (["Denied"], "", HOUR),
        (["Approved", "Failed"], "", HOUR),
        (["Other"], "", None),
    ],
)
def test_retention_of_requests(world: World, kinds: list[str], issued: str, kept: int | None) -> None:
    conditions = [{"type": kind, "status": "True", "lastUpdateTime": world.time()} for kind in kinds]
    put(world, CLIENT, conditions=conditions, certificate=issued or None)
    again = world.work(CLEANING.name, world.key("", "one")).again
    if kept is None:
        assert again is None
        return
    world.pass_time(kept)
    world.settle()
    assert world.bodies(REQUESTS)
    world.pass_time(1)
    world.settle()
    assert not world.bodies(REQUESTS)
    assert again == kept + 1
