"""Roles that are killed continue where they stopped: no Pod is lost, doubled or restarted."""

from __future__ import annotations

import pytest
from pool_kit import Pool, Space, deployment

from tests.real.waiting import eventually

pytestmark = pytest.mark.core


def test_a_deployment_is_complete_after_every_role_was_killed(pool: Pool, space: Space) -> None:
    space.apply(deployment("before", 2))
    before = {each["metadata"]["uid"] for each in space.all_running("before", 2)}

    for role in pool.system.role_names:
        pool.system.kill(role)
    space.apply(deployment("after", 2))
    pool.system.start()

    space.all_running("after", 2)
    assert {each["metadata"]["uid"] for each in space.pods("before")} == before
    ours = sorted(each["metadata"]["name"] for each in space.pods())
    eventually(
        lambda: (
            sorted(
                each["metadata"]["name"]
                for super_id in pool.supers
                for each in space.all_there(super_id, "pods")
            )
            == ours
        )
    )
