"""Draining a super cluster respects tenants' PodDisruptionBudgets, as draining a node does."""

from __future__ import annotations

import pytest
from pool_kit import Pool, deployment

from tests.real.waiting import eventually


@pytest.mark.timeout(400)
def test_draining_a_super_cluster_waits_for_budgets_until_the_operator_overrides_them(pool: Pool) -> None:
    vcsync = pool.system.vcsync
    with pool.space() as space:
        space.pin(r1=1)
        eventually(lambda: space.placements().get("r1"))
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
        }
        space.apply(budget, deployment("web", 2, on="r1"))
        names = {each["metadata"]["name"] for each in space.all_running("web", 2)}
        space.pin()
        try:
            vcsync("super", "drain", "r1")
            name = min(names)
            endpoint = pool.system.endpoint("syncer-r1").removeprefix("http://")
            output = eventually(
                lambda: (
                    line
                    if "disruption budget web"
                    in (line := vcsync("explain", "pod", f"acme/{space.name}/{name}", "--endpoint", endpoint))
                    else ""
                )
            )
            assert "waits for PodDisruptionBudgets" in output
            assert {each["metadata"]["name"] for each in space.pods("web")} == names

            vcsync("super", "drain", "r1", "--force")
            eventually(lambda: not names & {each["metadata"]["name"] for each in space.pods("web")})
            eventually(lambda: "r1" not in space.stands_on())
        finally:
            vcsync("super", "uncordon", "r1")
            pool.bed.meta.kubectl(
                "patch", "supercluster", "r1", "--type=merge", "-p", '{"spec":{"evictionSeconds":null}}'
            )
