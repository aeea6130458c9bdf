"""Slices that a namespace releases are given to others only when its Pods fit into the remaining ones."""

from __future__ import annotations

import pytest
from pool_kit import SLICE, Pool, container, pod, quota

from tests.real.waiting import eventually
from vcsync.api import names

LARGE = {"cpu": "400m", "memory": "400Mi"}


@pytest.mark.timeout(300)
def test_capacity_that_pods_still_use_of_removed_slices_is_not_given_to_others(pool: Pool) -> None:
    with pool.space() as space:
        space.pin(r1=2)
        eventually(lambda: space.placements() == {"r1": 2})
        for name in ("first", "second"):
            space.apply(pod(name, containers=[container(resources={"requests": LARGE, "limits": LARGE})]))
        space.running("first")
        space.running("second")
        space.pin()
        space.apply(quota(SLICE))
        eventually(lambda: sum(space.placements().values()) == 1)
        [stays] = space.placements()

        ledger = eventually(space.ledger)
        assert stays == "r1"
        assert ledger["status"]["clearing"]["r1"]["cpu"] == "500m"
        assert names.clear_finalizer("r1") in ledger["metadata"]["finalizers"]
        output = pool.system.vcsync("explain", "namespace", f"acme/{space.name}")
        assert "Super cluster r1 may still hold 500m cpu" in output
        assert space.running("second"), "a smaller quota ends no Pod"

        space.kubectl("delete", "pod", "second")

        def cleared() -> bool:
            found = space.ledger() or {}
            return (
                not found["status"].get("clearing")
                and names.clear_finalizer("r1") not in found["metadata"]["finalizers"]
            )

        eventually(cleared)
