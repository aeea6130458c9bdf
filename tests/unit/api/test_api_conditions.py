"""A condition keeps its transition time while its status stays the same."""

from hypothesis import given
from hypothesis import strategies as st

from vcsync.api.conditions import Condition, condition_of, is_true, set_condition

EARLIER, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z"


def test_the_first_condition_is_appended() -> None:
    (ready,) = set_condition((), "Ready", status=True, reason="Up", message="it is", now=EARLIER)
    assert ready == Condition(
        type="Ready", status="True", reason="Up", message="it is", last_transition_time=EARLIER
    )


def test_an_unchanged_status_keeps_its_transition_time_while_reason_and_message_change() -> None:
    old = set_condition((), "Ready", status=False, reason="Down", message="1 node", now=EARLIER)
    (ready,) = set_condition(old, "Ready", status=False, reason="Gone", message="0 nodes", now=LATER)
    assert (ready.last_transition_time, ready.reason, ready.message) == (EARLIER, "Gone", "0 nodes")


def test_a_changed_status_takes_the_new_time() -> None:
    old = set_condition((), "Ready", status=None, reason="Silent", message="", now=EARLIER)
    assert old[0].status == "Unknown"
    (ready,) = set_condition(old, "Ready", status=True, reason="Up", message="", now=LATER)
    assert ready.last_transition_time == LATER


def test_other_conditions_keep_their_place() -> None:
    conditions: tuple[Condition, ...] = ()
    for kind in ("A", "B", "C"):
        conditions = set_condition(conditions, kind, status=True, reason="R", message="", now=EARLIER)
    changed = set_condition(conditions, "B", status=False, reason="R", message="", now=LATER)
    assert [condition.type for condition in changed] == ["A", "B", "C"]
    assert (changed[0], changed[2]) == (conditions[0], conditions[2])


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.sampled_from([True, False, None]))))
def test_each_type_occurs_once_with_its_last_status(writes: list[tuple[str, bool | None]]) -> None:
    conditions: tuple[Condition, ...] = ()
    for number, (kind, status) in enumerate(writes):
        conditions = set_condition(conditions, kind, status=status, reason="R", message="", now=str(number))
    last = dict(writes)
    assert {condition.type for condition in conditions} == set(last)
    assert len(conditions) == len(last)
    for kind, status in last.items():
        condition = condition_of(conditions, kind)
        assert condition is not None
        assert condition.status == {True: "True", False: "False", None: "Unknown"}[status]
        assert is_true(conditions, kind) is (status is True)


def test_an_absent_condition_is_not_true() -> None:
    assert condition_of((), "Ready") is None
    assert not is_true((), "Ready")
