"""A Pod is bound and gets its status in one write where the API server offers it; elsewhere it is bound once, although the
watch may report the binding later."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from engine_paper import PaperApi, refusal

from vcsync.api.names import BOUND_STATUS
from vcsync.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    Status,
    StatusDetails,
    TooManyRequests,
)
from vcsync.kube.resources import PODS
from vcsync.syncer.executor import BINDING_SECONDS, FIRST_STATUS_SECONDS, Executor, Stale, TooEarly
from vcsync.syncer.kinds.plan import Bind

TENANT = "tenant"
ONE_WRITE = f"patch {BOUND_STATUS}"
RUNNING = {"metadata": {"uid": "u1"}, "status": {"phase": "Running"}}
NO_SUBRESOURCE = refusal(NotFound, "the server could not find the requested resource", TENANT, code=404)
NO_ROLE = refusal(
    Forbidden,
    f'pods "web" is forbidden: User "syncer" cannot patch resource "pods/{BOUND_STATUS}" in API group "" in the namespace "shop"',
    TENANT,
)
NO_METHOD = refusal(ApiError, "the server does not allow this method", TENANT, code=405)


class Bench:
    def __init__(self) -> None:
        self.now = 1000.0
        self.planned_from = ""
        self.tenant = PaperApi(TENANT)
        self.observed: list[str] = []
        self.executor = Executor(
            tenant_client=self.tenant,  # type: ignore[arg-type]
            super_client=PaperApi("r1"),  # type: ignore[arg-type]
            caches=SimpleNamespace(
                observe=lambda _side, _resource, answer: self.observed.append(answer.name),
                observe_gone=lambda *_: None,
            ),
            ensure_node=_nothing,
            clock=lambda: self.now,
        )

    async def bind(self, uid: str, status: dict[str, Any] | None = None, *, early: bool = False) -> None:
        await self.executor.execute(
            Bind("shop", "web", uid, self.version, "node-1.r1", status, early),
            None,  # type: ignore[arg-type]
            confirm=_nothing,
            notify=lambda _: None,
        )

    @property
    def version(self) -> str:
        """Version of the Pod that the plan is made from."""
        return self.planned_from or self.tenant.objects["pods", "shop", "web"]["metadata"]["resourceVersion"]

    def verbs(self) -> list[str]:
        verbs = [call[0] for call in self.tenant.calls]
        self.tenant.calls.clear()
        return verbs

    def fail(self, verb: str, error: ApiError | None) -> None:
        self.tenant.failures.pop(f"{verb} pods", None)
        if error is not None:
            self.tenant.failures[f"{verb} pods"] = error

    @property
    def bindings(self) -> int:
        return sum(call[0] == "create binding" for call in self.tenant.calls)


async def _nothing(*_: Any) -> None:
    return None


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.tenant.put(PODS, {"metadata": {"name": "web", "uid": "u1"}}, "shop")
    return bench


@pytest.fixture
def elsewhere(bench: Bench) -> Bench:
    """A bench whose API server does not have the subresource."""
    bench.fail(ONE_WRITE, NO_SUBRESOURCE)
    return bench


async def test_the_binding_and_the_status_are_one_write(bench: Bench) -> None:
    await bench.bind("u1", RUNNING)
    assert bench.verbs() == [ONE_WRITE]
    stored = bench.tenant.objects["pods", "shop", "web"]
    assert (stored["spec"]["nodeName"], stored["status"]["phase"]) == ("node-1.r1", "Running")
    assert bench.observed == ["web"], "the cache has the answer before the watch reports it"


@pytest.mark.parametrize("one_write", [True, False])
async def test_a_pod_that_has_changed_since_the_plan_is_not_bound(bench: Bench, one_write: bool) -> None:
    """The Pod scheduler may have assigned it to another super cluster."""
    if not one_write:
        bench.fail(ONE_WRITE, NO_SUBRESOURCE)
    bench.planned_from = bench.version
    bench.tenant.put(PODS, bench.tenant.objects["pods", "shop", "web"], "shop")
    with pytest.raises(Stale):
        await bench.bind("u1", RUNNING)
    assert "nodeName" not in bench.tenant.objects["pods", "shop", "web"].get("spec", {})
    assert bench.observed == ["web"], "it was read again"


async def test_a_binding_waits_for_the_first_status(bench: Bench) -> None:
    with pytest.raises(TooEarly) as waits:
        await bench.bind("u1", early=True)
    assert waits.value.after == FIRST_STATUS_SECONDS
    assert bench.verbs() == []
    await bench.bind("u1", RUNNING)
    assert bench.verbs() == [ONE_WRITE]


async def test_a_kubelet_that_does_not_report_delays_a_binding_once(bench: Bench) -> None:
    for passed in (0.0, 0.4):
        bench.now += passed
        with pytest.raises(TooEarly) as waits:
            await bench.bind("u1", early=True)
    assert waits.value.after == pytest.approx(FIRST_STATUS_SECONDS - 0.4)
    bench.now += 0.6
    await bench.bind("u1", early=True)
    assert bench.verbs() == [ONE_WRITE]


async def test_elsewhere_a_binding_does_not_wait(elsewhere: Bench) -> None:
    await elsewhere.bind("u1")
    elsewhere.verbs()
    elsewhere.tenant.put(PODS, {"metadata": {"name": "web", "uid": "u2"}}, "shop")
    await elsewhere.bind("u2", early=True)
    assert elsewhere.verbs() == ["create binding"]


async def test_what_requires_the_version_follows_a_binding_when_the_watch_shows_it(elsewhere: Bench) -> None:
    """The binding changes the version. With a status alone, no other write is needed."""
    metadata = {"uid": "u1", "resourceVersion": elsewhere.version, "finalizers": []}
    await elsewhere.bind("u1", {**RUNNING, "metadata": metadata})
    assert elsewhere.verbs() == [ONE_WRITE, "create binding"]


async def test_a_binding_without_a_status_is_one_write_too(bench: Bench) -> None:
    await bench.bind("u1")
    assert bench.verbs() == [ONE_WRITE]
    assert bench.observed == ["web"]


@pytest.mark.parametrize("answer", [NO_SUBRESOURCE, NO_ROLE, NO_METHOD], ids=["404", "403", "405"])
async def test_an_api_server_without_the_subresource_is_asked_once(bench: Bench, answer: ApiError) -> None:
    bench.tenant.put(PODS, {"metadata": {"name": "web", "uid": "u1"}}, "shop")
    bench.fail(ONE_WRITE, answer)
    await bench.bind("u1", RUNNING)
    assert bench.verbs() == [ONE_WRITE, "create binding", "patch"]
    bench.tenant.put(PODS, {"metadata": {"name": "web", "uid": "u2"}}, "shop")
    await bench.bind("u2", {**RUNNING, "metadata": {"uid": "u2"}})
    assert bench.verbs() == ["create binding", "patch"]


async def test_an_answer_that_is_not_bound_counts_as_no_subresource(bench: Bench) -> None:
    """As from a server that takes any patch and ignores the node."""
    stored = bench.tenant.patch

    async def patch(*arguments: Any, subresource: str = "", **options: Any) -> Any:
        if subresource == BOUND_STATUS:
            return await bench.tenant.get(PODS, "web", "shop")
        return await stored(*arguments, subresource=subresource, **options)

    bench.tenant.patch = patch  # type: ignore[method-assign]
    await bench.bind("u1", RUNNING)
    await bench.bind("u1")
    assert bench.verbs() == ["get", "create binding", "patch"]


@pytest.mark.parametrize(
    "error",
    [
        refusal(Forbidden, 'admission webhook "status.example.org" denied the request', TENANT),
        refusal(Invalid, "status is invalid", TENANT, code=422),
        refusal(ServerError, "failed calling webhook", TENANT, code=500),
    ],
    ids=["403", "422", "500"],
)
async def test_a_refused_status_does_not_hinder_the_binding(bench: Bench, error: ApiError) -> None:
    bench.fail(ONE_WRITE, error)
    bench.fail("patch", error)
    with pytest.raises(type(error)):
        await bench.bind("u1", RUNNING)
    assert bench.verbs() == [ONE_WRITE, "create binding", "patch"]
    bench.fail(ONE_WRITE, None)
    await bench.bind("u1")
    assert bench.verbs() == [ONE_WRITE], "the subresource is not forgotten because of a refusal"


async def test_an_overloaded_server_is_not_asked_twice(bench: Bench) -> None:
    bench.fail(ONE_WRITE, refusal(TooManyRequests, "later", TENANT, code=429))
    with pytest.raises(TooManyRequests):
        await bench.bind("u1", RUNNING)
    assert bench.verbs() == [ONE_WRITE]


@pytest.mark.parametrize(
    "error",
    [
        refusal(Conflict, "already assigned", TENANT, code=409),
        NotFound(Status(code=404, message="no such Pod", details=StatusDetails(name="web")), endpoint=TENANT),
    ],
    ids=["bound", "gone"],
)
async def test_a_pod_that_cannot_be_bound_any_more_is_planned_again(bench: Bench, error: ApiError) -> None:
    bench.fail(ONE_WRITE, error)
    with pytest.raises(Stale):
        await bench.bind("u1", RUNNING)
    assert bench.verbs() == [ONE_WRITE, "get"]


async def test_a_binding_is_not_repeated_before_the_watch_reports_it(elsewhere: Bench) -> None:
    await elsewhere.bind("u1")
    await elsewhere.bind("u1")
    assert elsewhere.bindings == 1


async def test_another_pod_of_the_same_name_is_bound(elsewhere: Bench) -> None:
    await elsewhere.bind("u1")
    await elsewhere.bind("u2")
    assert elsewhere.bindings == 2


async def test_a_binding_that_the_watch_never_reports_is_repeated(elsewhere: Bench) -> None:
    await elsewhere.bind("u1")
    elsewhere.now += BINDING_SECONDS
    await elsewhere.bind("u1")
    assert elsewhere.bindings == 2


async def test_a_refused_binding_is_repeated(elsewhere: Bench) -> None:
    elsewhere.tenant.failures["create binding pods"] = refusal(Conflict, "already assigned", TENANT, code=409)
    with pytest.raises(Stale):
        await elsewhere.bind("u1")
    assert elsewhere.observed == ["web"], "the cache learns what stands instead"
    del elsewhere.tenant.failures["create binding pods"]
    await elsewhere.bind("u1")
    assert elsewhere.bindings == 2


async def test_a_binding_names_the_pod_by_its_uid_and_the_virtual_node(elsewhere: Bench) -> None:
    sent: list[tuple[Any, ...]] = []

    async def create_raw(*arguments: Any, **options: Any) -> bytes:
        sent.append((*arguments, options))
        return b"{}"

    elsewhere.tenant.create_raw = create_raw  # type: ignore[method-assign]
    await elsewhere.bind("u1")
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "uid": "u1",
            "resourceVersion": elsewhere.version,
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1.r1"},
    }
    assert sent == [(PODS, body, "shop", {"name": "web", "subresource": "binding"})]
