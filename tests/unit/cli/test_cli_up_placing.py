"""The control plane of `vcsync up` asks the pod scheduler of its process while that one runs."""

from contextlib import asynccontextmanager

from vcsync.cli.up import placing
from vcsync.cli.up.placing import LocalPodScheduler

QUESTION = ("acme", "uid", "shop", "web", b"{}", {"app": "web"})


class Scheduler:
    def promise(self, *question):
        return question


async def test_only_a_scheduler_that_runs_is_asked(monkeypatch):
    @asynccontextmanager
    async def make():
        yield Scheduler()

    monkeypatch.setattr(placing, "make_podscheduler", lambda _settings: make)
    local = LocalPodScheduler()
    assert await local.promise(*QUESTION) is None
    for _restart in range(2):
        async with local.make(None)():
            assert await local.promise(*QUESTION) == QUESTION
        assert await local.promise(*QUESTION) is None
