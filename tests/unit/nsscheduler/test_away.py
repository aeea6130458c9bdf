"""Which slices a ledger entry remembers as away from a super cluster that was lost."""

import pytest

from vcsync.api.specs import NamespacePlacementStatus
from vcsync.nsscheduler.away import slices_away

POOL = {"r1", "r2", "r3"}


def status(away=None, **placements):
    return NamespacePlacementStatus(placements=placements, away=away or {})


@pytest.mark.parametrize(
    ("old", "placements", "leaving", "away"),
    [
        pytest.param(status(r1=2, r2=1), {"r1": 3}, {"r2": 0}, {"r2": 1}, id="slices leave"),
        pytest.param(status(r1=1, r2=3), {"r1": 3, "r2": 1}, {"r2": 1}, {"r2": 2}, id="some stay"),
        pytest.param(status({"r2": 1}, r1=2, r2=1), {"r1": 3}, {"r2": 0}, {"r2": 2}, id="the rest follows"),
        pytest.param(status(r1=2, r2=1), {"r1": 3}, {}, {}, id="they leave for another reason"),
        pytest.param(status({"r2": 2}, r1=3), {"r1": 2, "r2": 1}, {}, {"r2": 1}, id="one comes back"),
        pytest.param(status({"r2": 1}, r1=3), {"r1": 2, "r2": 1}, {}, {}, id="all come back"),
        pytest.param(status({"r2": 1}, r1=3), {"r1": 1, "r2": 2}, {}, {}, id="more come back"),
        pytest.param(status({"r2": 2}, r1=3), {"r3": 3}, {}, {"r2": 2}, id="they move on"),
        pytest.param(status({"r2": 2}, r1=3), {"r1": 1}, {}, {"r2": 1}, id="the namespace shrinks"),
        pytest.param(status({"r2": 2}, r1=3), {}, {}, {}, id="the namespace has no slices any more"),
        pytest.param(status({"r9": 2}, r1=3), {"r1": 3}, {}, {}, id="the super cluster is removed"),
        pytest.param(status({"r2": 1}, r1=2, r2=1), {"r1": 2, "r2": 1}, {}, {"r2": 1}, id="nothing changes"),
    ],
)
def test_slices_are_away_from_where_they_were_lost_until_they_come_back(old, placements, leaving, away):
    assert slices_away(old, placements, leaving, POOL) == away
