"""Histories of workloads end in equal states under kube-controller-manager and under our controllers.

`python -m hack.histories` compares many more.
"""

from pathlib import Path

import pytest

from hack.histories import policies
from hack.histories.__main__ import differences, story_of
from hack.histories.arena import arena
from hack.testbed import ensure

SECONDS = 600
STEPS = 5
SEEDS = {"Deployment": (4, 7), "StatefulSet": (4, 8), "Job": (4, 5), "Claim": (1,)}
"""Those that wait for no backoff, which takes tens of seconds."""


@pytest.fixture(scope="module")
def programs() -> None:
    ensure(("kube-controller-manager",), print)


@pytest.mark.timeout(SECONDS, func_only=True)
@pytest.mark.usefixtures("programs")
async def test_histories_end_in_equal_states(tmp_path: Path) -> None:
    stories = [story_of(seed, kind, STEPS) for kind, seeds in SEEDS.items() for seed in seeds]
    found = await differences(stories, tmp_path, at_once=len(stories))
    assert not found, "\n".join(map(str, found))


@pytest.mark.timeout(SECONDS, func_only=True)
@pytest.mark.usefixtures("programs")
async def test_policies_have_the_same_type_warnings(tmp_path: Path) -> None:
    async with arena(tmp_path) as sides:
        found = await policies.differences(sides)
    assert not found, "\n".join(found)
