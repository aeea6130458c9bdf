"""Deletions by controllers are in the timeline of the objects they delete."""

from typing import Any

import pytest
from controllers_world import TENANT

from vcsync.controllers.framework.engine import Engine, Item
from vcsync.controllers.framework.mirror import Key
from vcsync.controllers.framework.plan import Watch
from vcsync.controllers.framework.worker import ReconcileContext, Worker
from vcsync.controllers.node.taint_eviction_plan import taint_eviction
from vcsync.fairqueue import ObjectName
from vcsync.kube.resources import NODES, PODS
from vcsync.objects.envelope import Envelope

ON_NODE = b'{"nodeName":"one"}'
TAINTED = b'{"taints":[{"key":"lost","effect":"NoExecute"}]}'
POD = ObjectName("pods", "default", "web")


class Server:
    """A control plane that accepts every write."""

    name = "server"

    def below(self, _path: str) -> "Server":
        return self

    def across_tenants(self) -> "Server":
        return self

    async def patch(self, *_: Any, **__: Any) -> Envelope:
        return Envelope("web", "default", "uid-web", "8", tenant=TENANT, spec=ON_NODE)

    async def delete(self, *_: Any, **__: Any) -> None:
        return None


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("engine", "commit"):
        monkeypatch.setattr(f"vcsync.controllers.framework.{module}.time.time", lambda: 60.0)


def noted(engine: Engine) -> list[tuple[float, str, str]]:
    return [(each.time, each.what, each.version) for each in engine.work.timeline.of(TENANT, POD)]


@pytest.mark.usefixtures("moments")
async def test_a_workers_notes_are_in_the_tenants_timeline() -> None:
    async def work(context: ReconcileContext, _key: Key) -> None:
        context.note(POD, "deleted", "7")

    worker = Worker("podgc", (Watch(PODS, lambda *_: ()),), work)
    engine = Engine(Server(), [worker])  # type: ignore[arg-type]
    await engine._handle(TENANT, Item("podgc", "", ""))
    assert noted(engine) == [(60.0, "deleted", "7")]
    assert engine.work.timeline.of("another", POD) == ()


@pytest.mark.usefixtures("moments")
async def test_the_deletion_of_a_pod_by_a_taint_is_in_the_timeline() -> None:
    engine = Engine(Server(), [taint_eviction()])  # type: ignore[arg-type]
    engine.mirrors[NODES].observe(TENANT, Envelope("one", "", "uid-one", "1", spec=TAINTED))
    engine.mirrors[PODS].observe(TENANT, Envelope("web", "default", "uid-web", "7", spec=ON_NODE))
    await engine._handle(TENANT, Item(taint_eviction().name, "default", "web"))
    assert [what for _, what, _ in noted(engine)] == ["patched status", "deleted"]
