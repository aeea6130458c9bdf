"""A change that a listener cannot take keeps no other change from it, nor from others."""

from hypothesis import given
from hypothesis import strategies as st

from vcsync.controlplane.store.interface import Change
from vcsync.controlplane.store.telling import tell


def changes(*names: str) -> list[Change]:
    return [
        Change(number, f"{name}/core/pods/ns/a", b"", None, number) for number, name in enumerate(names, 1)
    ]


def test_every_listener_is_told_of_all_in_one_go() -> None:
    told: list[list[Change]] = []

    tell([lambda found: told.append(list(found))] * 2, changes("a", "b"), lambda *_: None)

    assert told == [changes("a", "b")] * 2


@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_only_the_changes_that_cannot_be_taken_are_lost(poison: list[bool]) -> None:
    all_changes = changes(*(f"t{number}" for number in range(len(poison))))
    poisonous = {each.revision for each, bad in zip(all_changes, poison, strict=True) if bad}
    known: set[int] = set()
    failed: list[int] = []

    def listener(found):
        for each in found:
            if each.revision in poisonous:
                raise ValueError(each.key)
            known.add(each.revision)

    tell([listener], all_changes, lambda change, _: failed.append(change.revision))

    assert known == {each.revision for each in all_changes} - poisonous
    assert failed == sorted(poisonous)
