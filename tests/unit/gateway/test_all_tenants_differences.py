"""Differences between the objects of a control plane and those that a client knows."""

from hypothesis import given
from hypothesis import strategies as st

from vcsync.gateway.all_tenants.followers import differences
from vcsync.gateway.all_tenants.known_objects import ObjectState

STATES = st.dictionaries(
    st.sampled_from("abcd"), st.tuples(st.sampled_from(["u1", "u2"]), st.sampled_from(["5", "6"]))
)


def seen(name: str, state: tuple[str, str] | None) -> ObjectState | None:
    return None if state is None else ObjectState("shop", name, *state)


@given(STATES, STATES)
def test_a_client_that_applies_them_knows_what_is_there(
    before: dict[str, tuple[str, str]], now: dict[str, tuple[str, str]]
) -> None:
    known = dict(before)
    for name, state in now.items():
        for kind, gone in differences(seen(name, before.get(name)), seen(name, state)):
            if kind == "DELETED":
                assert gone == seen(name, before[name])
                assert known.pop(name) == before[name]
            else:
                assert (kind == "MODIFIED") == (name in known)
                assert kind == "ADDED" or known[name][0] == state[0]  # only the same object is modified
                known[name] = state
    assert {name: known[name] for name in now} == now


@given(STATES)
def test_nothing_is_told_of_what_is_unchanged(state: dict[str, tuple[str, str]]) -> None:
    for name, each in state.items():
        assert differences(seen(name, each), seen(name, each)) == []
