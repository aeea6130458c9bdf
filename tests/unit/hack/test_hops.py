"""The hops of a Pod's way through a syncer are put together from the steps that were noted."""

from __future__ import annotations

import pytest

from hack.hops.path import HOPS, Seen, Step, Way, table, ways, writes_per_pod


def steps(pod: str = "p", begin: float = 0.0, answered: float = 0.014) -> list[Step]:
    """A Pod that is bound first and runs later, with an event of another cause between."""

    def at(milliseconds: float) -> float:
        return begin + milliseconds / 1000

    return [
        Step("received", at(4.1), pod, arrived=at(4)),
        Step("began", at(5), pod),
        Step("answered", begin + answered, pod, sent=at(6), what="create", writes=1),
        Step("received", at(20), pod, arrived=at(20)),
        Step("began", at(21), pod),
        Step("answered", at(25), pod, sent=at(22), what="bind", writes=1),
        Step("received", at(30), pod, arrived=at(29)),
        Step("began", at(31), pod),
        Step("answered", at(35), pod, sent=at(32), what="patch", writes=1, runs=True),
        Step("received", at(36), pod, arrived=at(36)),
        Step("began", at(37), pod),
    ]


def test_each_hop_has_its_duration_and_all_add_up() -> None:
    [way] = ways(steps(), {"p": Seen(0.0, 0.040)})
    assert way.hops == pytest.approx((4, 1, 1, 8, 15, 2, 1, 3, 5))
    assert way.whole == pytest.approx(40)
    assert way.writes == 2
    assert len(way.hops) == len(HOPS)


def test_an_event_before_the_answer_of_the_creation_is_no_negative_hop() -> None:
    [way] = ways(steps(answered=0.030), {"p": Seen(0.0, 0.040)})
    assert min(way.hops) >= 0
    assert way.whole == pytest.approx(40)


@pytest.mark.parametrize("lost", range(11))
def test_a_way_with_a_missing_step_is_left_out_or_whole(lost: int) -> None:
    found = ways([each for number, each in enumerate(steps()) if number != lost], {"p": Seen(0.0, 0.040)})
    assert all(way.whole == pytest.approx(40) for way in found)
    if lost in (0, 1, 2, 8):
        assert not found


def test_steps_of_other_pods_do_not_count() -> None:
    mixed = sorted([*steps("p"), *steps("q", 0.001), *steps("r", 0.002)], key=lambda step: step.at)
    found = ways(mixed, {"p": Seen(0.0, 0.040), "q": Seen(0.001, 0.041)})
    assert [way.whole for way in found] == [pytest.approx(40), pytest.approx(40)]
    assert writes_per_pod(mixed, ["p", "q"]) == 2
    assert writes_per_pod(mixed, ["p", "none"]) == 1


def test_the_table_has_medians_and_the_ratio_of_two_versions() -> None:
    quick, slow = Way((1.0,) * len(HOPS), 1), Way((4.0,) * len(HOPS), 2)
    text = table({"this": [quick, quick, slow], "peer": [slow]}, {"this": [1.0], "peer": [2.0]})
    lines = text.splitlines()
    assert lines[0] == "| from | to | where | this | peer | ratio |"
    assert len(lines) == 2 + len(HOPS) + 3
    assert lines[2].endswith("| 1.00 | 4.00 | 0.25 |")
    assert lines[-3] == f"| the whole way |  |  | {len(HOPS)}.00 | {4 * len(HOPS)}.00 | 0.25 |"
    assert lines[-1].endswith("| 1.00 | 2.00 | 0.50 |")


def test_a_single_version_has_no_ratio() -> None:
    text = table({"this": [Way((1.0,) * len(HOPS), 1)]}, {"this": [1.0]})
    assert text.splitlines()[0] == "| from | to | where | this |"
