"""A syncer binds a Pod and writes its status in one write; nobody else finds the subresource."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from asked_plane import Everybody, Response, ask

from vcsync.api.names import BOUND_STATUS
from vcsync.apimachinery.errors import StatusError, forbidden
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.authorization.syncers import SYNCER
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.scope import Admission

CORE = "/api/v1/namespaces/default"
PATH = f"{CORE}/pods/p/{BOUND_STATUS}"
MERGE = {"Content-Type": "application/merge-patch+json"}
RUNNING = {"phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]}
CALLER = Caller(User(SYNCER), "a")


class Syncer(Everybody):
    """Whoever `caller` is, who may do everything but `refused`; remembers what it was asked."""

    def __init__(self) -> None:
        self.caller = CALLER
        self.refused: set[str] = set()
        self.asked: list[tuple[str, str]] = []

    async def authenticate(self, certificate: Any, authorization: Any, tenant: Any) -> Caller:
        return self.caller

    async def authorize(self, caller: Caller, info: Any, audit: Any) -> None:
        self.asked.append((info.verb, info.subresource))
        if info.subresource in self.refused:
            raise forbidden("pods", "", info.name, f"no {info.subresource}")


class Bench:
    def __init__(self, store: Any) -> None:
        self.identity = Syncer()
        self.seen: list[tuple[str, str, str]] = []
        self.deny = ""
        plane = assemble(store, self.identity, admit=(self._see,))
        self.plane = plane

    async def _see(self, admission: Admission) -> None:
        old = ((admission.old or {}).get("spec") or {}).get("nodeName", "")
        self.seen.append((admission.operation, admission.scope.subresource, old))
        if self.deny and admission.scope.subresource == self.deny:
            raise StatusError(403, "Forbidden", f"{self.deny} is refused")

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        return await ask(self.plane.server.chain, method, path, body, **headers)

    async def patch(self, path: str = PATH, node: str = "n", **more: Any) -> Response:
        body = {"spec": {"nodeName": node}, "status": RUNNING, **more}
        return await self.ask("PATCH", path, body, **MERGE)

    async def pod(self, name: str = "p", **spec: Any) -> dict[str, Any]:
        body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
        made = await self.ask("POST", f"{CORE}/pods", body)
        assert made.status == 201, made.body
        return made.body


@pytest.fixture
async def bench(store: Any) -> Any:
    bench = Bench(store)
    await bench.plane.start("127.0.0.1", 0, None)
    made = await bench.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    assert made.status == 201, made.body
    yield bench
    await bench.plane.stop()


async def test_the_node_and_the_status_are_one_write(bench: Bench) -> None:
    made = await bench.pod()
    uid = made["metadata"]["uid"]
    answer = await bench.patch(metadata={"uid": uid, "annotations": {"x": "y"}})
    assert answer.status == 200, answer.body
    found = (await bench.ask("GET", f"{CORE}/pods/p")).body
    assert found == answer.body
    assert (found["spec"]["nodeName"], found["status"]["phase"]) == ("n", "Running")
    assert found["metadata"]["annotations"] == {"x": "y"}
    (scheduled,) = [each for each in found["status"]["conditions"] if each["type"] == "PodScheduled"]
    assert scheduled["status"] == "True"
    version = made["metadata"]["resourceVersion"]
    events = await bench.ask("GET", f"{CORE}/pods?resourceVersion={version}&resourceVersionMatch=Exact")
    assert "nodeName" not in events["items.0.spec"], "the version before is the unbound Pod"
    assert int(found["metadata"]["resourceVersion"]) == int(version) + 1


async def test_the_write_takes_finalizers_off(bench: Bench) -> None:
    body = {"metadata": {"name": "p", "finalizers": ["example.com/held", "tenancy.x-k8s.io/copy"]}}
    body["spec"] = {"containers": [{"name": "c", "image": "i"}]}
    made = (await bench.ask("POST", f"{CORE}/pods", body)).body
    version = made["metadata"]["resourceVersion"]
    left = {"resourceVersion": version, "finalizers": ["example.com/held"]}
    assert (await bench.patch(metadata=left)).body["metadata"]["finalizers"] == ["example.com/held"]


async def test_the_result_is_that_of_two_writes(bench: Bench) -> None:
    """Apart from the name, the times and the versions."""
    await bench.pod()
    one = (await bench.patch()).body
    await bench.pod("q")
    target = {"kind": "Node", "name": "n"}
    await bench.ask("POST", f"{CORE}/pods/q/binding", {"metadata": {"name": "q"}, "target": target})
    two = (await bench.ask("PATCH", f"{CORE}/pods/q/status", {"status": RUNNING}, **MERGE)).body

    def plain(pod: dict[str, Any]) -> dict[str, Any]:
        kept = msgspec.json.decode(msgspec.json.encode(pod))
        for key in ("name", "uid", "resourceVersion", "creationTimestamp"):
            kept["metadata"].pop(key)
        for each in (*kept["metadata"]["managedFields"], *kept["status"]["conditions"]):
            each.pop("time", None), each.pop("lastTransitionTime", None)
        return kept

    assert plain(one) == plain(two)


async def test_admission_sees_a_binding_and_then_a_status_of_the_bound_pod(bench: Bench) -> None:
    await bench.pod()
    bench.seen.clear()
    await bench.patch()
    assert bench.seen == [("CREATE", "binding", ""), ("UPDATE", "status", "n")]


@pytest.mark.parametrize("part", ["binding", "status"])
async def test_what_is_refused_in_one_part_writes_neither(bench: Bench, part: str) -> None:
    made = await bench.pod()
    bench.deny = part
    refused = await bench.patch()
    assert (refused.status, refused["message"]) == (403, f"{part} is refused")
    assert (await bench.ask("GET", f"{CORE}/pods/p")).body == made


@pytest.mark.parametrize("part", ["binding", "status"])
async def test_a_syncer_needs_the_permissions_to_both_parts(bench: Bench, part: str) -> None:
    made = await bench.pod()
    bench.identity.refused = {part}
    assert (await bench.patch()).status == 403
    assert (await bench.ask("GET", f"{CORE}/pods/p")).body == made


async def test_no_role_has_to_name_the_subresource(bench: Bench) -> None:
    await bench.pod()
    bench.identity.asked.clear()
    await bench.patch()
    assert bench.identity.asked == [("create", "binding"), ("patch", "status")]


@pytest.mark.parametrize(
    "caller",
    [
        Caller(User("admin", groups=("system:masters",)), "a"),
        Caller(User("operator", groups=("system:masters",)), "a", system=True),
        Caller(User("system:serviceaccount:vcsync-system:vcsync-podscheduler"), "a"),
        Caller(User("system:serviceaccount:default:vcsync-syncer"), "a"),
        replace(CALLER, impersonated=True),
        replace(CALLER, home="b"),
        replace(CALLER, system=True),
    ],
    ids=["admin", "operator", "other role", "other namespace", "impersonated", "guest", "system"],
)
@pytest.mark.parametrize("verb", ["PATCH", "GET", "PUT", "POST", "DELETE"])
async def test_nobody_else_finds_the_subresource(bench: Bench, caller: Caller, verb: str) -> None:
    made = await bench.pod()
    bench.identity.caller = caller
    answer = await bench.ask(verb, PATH, {"spec": {"nodeName": "n"}}, **MERGE)
    unknown = await bench.ask(verb, f"{CORE}/pods/p/nothing", {"spec": {"nodeName": "n"}}, **MERGE)
    assert (answer.status, answer.body) == (404, unknown.body), (
        "the answer is that for an unknown subresource"
    )
    bench.identity.caller = CALLER
    assert (await bench.ask("GET", f"{CORE}/pods/p")).body == made


async def test_it_is_in_no_document(bench: Bench) -> None:
    for path in ("/api/v1", "/openapi/v3/api/v1", "/openapi/v2"):
        found = await bench.ask("GET", path)
        assert found.status == 200
        assert BOUND_STATUS.encode() not in found.raw
        assert b"pods/status" in found.raw or b"pods/{name}/status" in found.raw


@pytest.mark.parametrize("verb", ["GET", "PUT", "POST", "DELETE"])
async def test_a_syncer_can_only_patch(bench: Bench, verb: str) -> None:
    await bench.pod()
    assert (await bench.ask(verb, PATH, {})).status == 405


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ([], 400, "the patch must be a JSON object"),
        ({}, 400, "spec.nodeName must name a node"),
        ({"spec": {"nodeName": ""}}, 400, "spec.nodeName must name a node"),
        ({"spec": {"nodeName": "n", "hostNetwork": True}}, 400, "spec.nodeName must name a node"),
        ({"spec": {"nodeName": 7}}, 400, "spec.nodeName must name a node"),
        ({"spec": {"nodeName": "n"}, "metadata": []}, 400, "metadata must be a JSON object"),
        ({"spec": {"nodeName": "n"}, "metadata": 7}, 400, "metadata must be a JSON object"),
        ({"spec": {"nodeName": "n"}, "metadata": {"uid": 7}}, 400, "metadata.uid must be a string"),
        ({"spec": {"nodeName": "n"}, "metadata": {"uid": "other"}}, 409, "Operation cannot be fulfilled"),
        ({"spec": {"nodeName": "n"}, "metadata": {"resourceVersion": "1"}}, 409, "Operation cannot be"),
        ({"spec": {"nodeName": "n"}, "status": {"qosClass": "Guaranteed"}}, 422, 'Pod "p" is invalid'),
        ({"spec": {"nodeName": "n"}, "metadata": {"name": "q"}}, 400, "the name of the object"),
    ],
)
async def test_a_refused_patch_has_a_reason_and_writes_nothing(
    bench: Bench, body: Any, code: int, message: str
) -> None:
    made = await bench.pod()
    refused = await bench.ask("PATCH", PATH, body, **MERGE)
    assert (refused.status, refused["message"][: len(message)]) == (code, message)
    assert (await bench.ask("GET", f"{CORE}/pods/p")).body == made


@pytest.mark.parametrize("form", ["strategic-merge-patch+json", "json-patch+json", "apply-patch+yaml"])
async def test_only_a_merge_patch_is_taken(bench: Bench, form: str) -> None:
    await bench.pod()
    refused = await bench.ask(
        "PATCH", f"{PATH}?fieldManager=m", b"{}", **{"Content-Type": f"application/{form}"}
    )
    assert refused.status == 415


async def test_pods_that_cannot_be_bound_have_a_reason(bench: Bench) -> None:
    await bench.pod("gated", schedulingGates=[{"name": "g"}])
    await bench.pod("bound", nodeName="m")
    for name, why in (
        ("gated", "pod gated has non-empty .spec.schedulingGates"),
        ("bound", 'pod bound is already assigned to node "m"'),
    ):
        refused = await bench.patch(f"{CORE}/pods/{name}/{BOUND_STATUS}")
        assert refused.status == 409
        assert refused["message"] == f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
    none = await bench.patch(f"{CORE}/pods/none/{BOUND_STATUS}")
    assert (none.status, none["details.name"]) == (404, "none"), (
        "a missing Pod differs from a missing subresource"
    )


async def test_the_spec_is_the_stored_one_but_for_the_node(bench: Bench) -> None:
    made = await bench.pod()
    found = (await bench.patch()).body
    assert found["spec"] == {**made["spec"], "nodeName": "n"}


async def test_a_dry_run_writes_nothing(bench: Bench) -> None:
    made = await bench.pod()
    done = await bench.patch(f"{PATH}?dryRun=All")
    assert (done.status, done["spec.nodeName"]) == (200, "n")
    assert (await bench.ask("GET", f"{CORE}/pods/p")).body == made


async def test_a_status_without_changes_still_binds(bench: Bench) -> None:
    await bench.pod()
    done = await bench.ask("PATCH", PATH, {"spec": {"nodeName": "n"}}, **MERGE)
    assert (done.status, done["spec.nodeName"]) == (200, "n")
    assert (await bench.ask("GET", f"{CORE}/pods/p"))["spec.nodeName"] == "n"


async def test_other_kinds_do_not_have_it(bench: Bench) -> None:
    for path in (
        f"{CORE}/services/s/{BOUND_STATUS}",
        f"/apis/apps/v1/namespaces/default/deployments/d/{BOUND_STATUS}",
    ):
        assert (await bench.patch(path)).status == 404
