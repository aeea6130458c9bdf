"""A syncer works only on its own super cluster."""

import pytest
from engine_paper import PaperApi

from vcsync.api import names
from vcsync.kube.errors import Unreachable
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.syncer import identity
from vcsync.syncer.identity import WrongSuperCluster, check_identity


def marked(super_id: str) -> PaperApi:
    api = PaperApi("r1")
    api.put(
        CONFIG_MAPS,
        {
            "metadata": {"name": names.SUPER_CLUSTER_INFO, "namespace": names.SUPER_CLUSTER_INFO_NAMESPACE},
            "data": {names.SUPER_CLUSTER_INFO_KEY: super_id},
        },
    )
    return api


async def test_the_intended_cluster_is_accepted() -> None:
    await check_identity(marked("r1"), "r1")


async def test_another_cluster_is_refused_with_the_remedy() -> None:
    with pytest.raises(WrongSuperCluster, match=r"'r2', not 'r1'.*Secret"):
        await check_identity(marked("r2"), "r1")


async def test_a_cluster_that_was_never_registered_is_refused_with_the_command() -> None:
    with pytest.raises(WrongSuperCluster, match="vcsync super add r1"):
        await check_identity(PaperApi("r1"), "r1")


async def test_a_cluster_that_does_not_answer_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(identity, "LONGEST_PAUSE_SECONDS", 0.001)
    api = marked("r1")
    answers = iter([Unreachable("refused", endpoint="r1"), Unreachable("refused", endpoint="r1")])
    get = api.get

    async def sometimes(*arguments: object, **options: object) -> object:
        if error := next(answers, None):
            raise error
        return await get(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(api, "get", sometimes)
    await check_identity(api, "r1")
