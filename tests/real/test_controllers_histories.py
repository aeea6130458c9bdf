"""The same histories end alike under kube-controller-manager and under our controllers; many more: `python -m hack.histories`."""

from pathlib import Path

import pytest

from hack.histories.__main__ import differences, told
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
async def test_histories_end_alike(tmp_path: Path) -> None:
    stories = [told(seed, kind, STEPS) for kind, seeds in SEEDS.items() for seed in seeds]
    found = await differences(stories, tmp_path, at_once=len(stories))
    assert not found, "\n".join(map(str, found))
