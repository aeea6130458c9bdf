"""The benchmark of the schedulers' cores, in small, and its tables."""

import pytest

from hack.bench import scheduler_report
from hack.bench.bench_pool import NAMESPACES, ON_LOST, PODS, BenchPool
from hack.bench.quality import Change, Quality
from hack.bench.report import Aim
from hack.bench.scheduler_report import Line
from hack.bench.schedulers import Loss, NamespaceBench, Speed, measure


def test_every_pod_of_a_small_pool_is_placed_and_leaves_the_lost_super_cluster() -> None:
    found = measure(3, tenants=4)  # it fails if a Pod waits or stays
    assert (found.namespaces, found.pods) == (4 * NAMESPACES, 4 * NAMESPACES * PODS)
    assert (found.loss.namespaces, found.loss.pods) == (
        4 * NAMESPACES // ON_LOST,
        4 * NAMESPACES * PODS // ON_LOST,
    )


def test_a_decision_without_a_change_stays() -> None:
    bench = NamespaceBench(BenchPool(3, 2))
    bench.decide_all()
    before = {key: plan.placements for key, plan in bench.plans.items()}
    bench.decide_all()
    assert {key: plan.placements for key, plan in bench.plans.items()} == before
    assert all(before.values())


@pytest.mark.parametrize(
    ("figures", "aim", "verdict"),
    [
        ((1200.0, 1000.0), Aim(1000, "least"), "met"),
        ((1200.0, 900.0), Aim(1000, "least"), "missed by 100"),
        ((0.05, 0.1), Aim(0.1), "met"),
        ((0.05, 0.3), Aim(0.1), "missed by 0.20"),
        ((1.0,), None, ""),
    ],
)
def test_the_worst_figure_decides_whether_an_aim_is_met(
    figures: tuple[float, ...], aim: Aim | None, verdict: str
) -> None:
    line = Line("x", figures, aim)
    assert line.verdict == verdict
    assert len(line.cells()) == len(figures) + 3


def test_tables_have_a_column_for_each_pool() -> None:
    speed = Speed(10, 500, 10_000, 0.5, 0.25, 0.5, 1.0, 0.5, 20_480_000, Loss(1000, 50, 0.5, 1.0, 2.0, 0.5))
    cells = scheduler_report.speed_table([speed, speed])
    assert cells[0] == ("", "10 super clusters", "10 super clusters", "aim", "")
    assert cells[1] == ("namespaces placed per second", "1000", "1000", "≥ 1000", "met")
    assert ("memory of one in the Pod scheduler (KB)", "2.00", "2.00", "", "") in cells
    assert (
        "lost super cluster with 1000 Pods: all decisions (s CPU)",
        "4.00",
        "4.00",
        "≤ 5.00",
        "met",
    ) in cells
    change = Change(0.99, 0.95, 10, 200, 8)
    cells = scheduler_report.quality_table(
        [Quality(90, 10, 0, 0.99, 0.97, 0.9, 0.95, change, Change(1.0, 1.0, 0, 0, 0))]
    )
    assert ("placed quota: policy spread (%)", "99.0", "≥ 98.0", "met") in cells
    assert ("  vcsync to the optimum computed again", "0.05", "≤ 0.10", "met") in cells
    assert ("  vcsync to the optimum computed again", "0.00", "≤ 0.10", "met") in cells
