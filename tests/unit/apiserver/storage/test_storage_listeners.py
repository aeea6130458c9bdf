"""A change on which a listener fails affects neither other changes nor other listeners."""

from hypothesis import given
from hypothesis import strategies as st

from vcsync.apiserver.storage.interface import Change
from vcsync.apiserver.storage.listeners import notify


def changes(*names: str) -> list[Change]:
    return [
        Change(number, f"{name}/core/pods/ns/a", b"", None, number) for number, name in enumerate(names, 1)
    ]


def test_every_listener_receives_all_changes_in_one_call() -> None:
    received: list[list[Change]] = []

    notify([lambda batch: received.append(list(batch))] * 2, changes("a", "b"), lambda *_: None)

    assert received == [changes("a", "b")] * 2


@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_only_changes_on_which_the_listener_fails_are_lost(poison: list[bool]) -> None:
    all_changes = changes(*(f"t{number}" for number in range(len(poison))))
    poisonous = {each.revision for each, bad in zip(all_changes, poison, strict=True) if bad}
    known: set[int] = set()
    failed: list[int] = []

    def listener(found):
        for each in found:
            if each.revision in poisonous:
                raise ValueError(each.key)
            known.add(each.revision)

    notify([listener], all_changes, lambda change, _: failed.append(change.revision))

    assert known == {each.revision for each in all_changes} - poisonous
    assert failed == sorted(poisonous)
