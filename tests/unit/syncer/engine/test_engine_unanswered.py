"""A creation without an answer may be executed late: until then nobody can confirm that the object does not exist."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from engine_paper import PaperApi, refusal

from vcsync.kube.errors import Forbidden, KubeError, ServerError, Unreachable
from vcsync.kube.resources import PODS
from vcsync.syncer.executor import UNANSWERED_SECONDS, Executor, ObjectExists, TooEarly
from vcsync.syncer.kinds.plan import Action, ConfirmAbsent, Create

PLACE = "key-shop"
CREATE = Create("super", PODS, PLACE, {"metadata": {"name": "web", "namespace": PLACE}})
ABSENT = ConfirmAbsent("super", PODS, PLACE, "web")


class Bench:
    def __init__(self) -> None:
        self.now = 1000.0
        self.super = PaperApi("r1")
        nothing: Any = SimpleNamespace(observe=lambda *_: None, observe_gone=lambda *_, **__: None)
        self.executor = Executor(
            tenant_client=PaperApi("tenant"),  # type: ignore[arg-type]
            super_client=self.super,  # type: ignore[arg-type]
            caches=nothing,
            ensure_node=None,  # type: ignore[arg-type]
            clock=lambda: self.now,
        )

    async def execute(self, action: Action) -> None:
        never: Any = None
        await self.executor.execute(action, never, confirm=never, notify=never)

    async def fail(self, error: KubeError) -> None:
        self.super.failures["create pods"] = error  # type: ignore[assignment]
        with pytest.raises(KubeError):
            await self.execute(CREATE)
        del self.super.failures["create pods"]


@pytest.mark.parametrize(
    "error", [Unreachable("cut", endpoint="r1"), refusal(ServerError, "timed out", "r1", code=504)]
)
async def test_nothing_is_confirmed_while_a_creation_may_still_be_executed(error: KubeError) -> None:
    bench = Bench()
    await bench.fail(error)
    with pytest.raises(TooEarly, match="may still be executed") as waits:
        await bench.execute(ABSENT)
    assert waits.value.after == UNANSWERED_SECONDS
    bench.now += UNANSWERED_SECONDS
    await bench.execute(ABSENT)
    bench.now -= 1
    await bench.execute(ABSENT)


@pytest.mark.parametrize(
    "error",
    [Unreachable("refused", endpoint="r1", sent=False), refusal(Forbidden, "no", "r1", code=403)],
    ids=["never sent", "refused"],
)
async def test_a_creation_that_certainly_failed_is_not_waited_for(error: KubeError) -> None:
    bench = Bench()
    await bench.fail(error)
    await bench.execute(ABSENT)


async def test_a_creation_that_was_repeated_and_answered_is_not_waited_for() -> None:
    bench = Bench()
    await bench.fail(Unreachable("cut", endpoint="r1"))
    await bench.execute(CREATE)
    with pytest.raises(ObjectExists):
        await bench.execute(ABSENT)
