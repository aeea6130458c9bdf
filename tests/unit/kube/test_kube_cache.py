"""The cache applies changes in the order of versions, however they arrive."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.kube.cache import Cache, Change
from vcsync.objects.envelope import Envelope


def item(name: str = "n", version: int = 1, *, uid: str = "u", namespace: str = "a") -> Envelope:
    return Envelope(name=name, namespace=namespace, uid=uid, resource_version=str(version))


@pytest.mark.parametrize(
    ("known", "news", "changes"),
    [
        (item(version=5), item(version=6), True),
        (item(version=5), item(version=5), False),
        (item(version=5), item(version=4), False),
        (item(version=9), item(version=10), True),
        (item(version=5, uid="old"), item(version=6, uid="new"), True),
        (item(version=5, uid="new"), item(version=4, uid="old"), False),
    ],
)
def test_the_newer_version_wins(known: Envelope, news: Envelope, changes: bool) -> None:
    cache = Cache()
    cache.observe(known)
    assert cache.observe(news) == (Change(known, news) if changes else None)
    assert cache.get("a", "n") == (news if changes else known)


@pytest.mark.parametrize(("version", "deleted"), [(6, True), (5, True), (4, False)])
def test_deletions_apply_unless_they_are_older_than_the_cached_object(version: int, deleted: bool) -> None:
    cache = Cache()
    known = item(version=5)
    cache.observe(known)
    assert cache.observe_deleted(item(version=version)) == (
        Change(known, None, reported=True) if deleted else None
    )
    assert ((("a", "n")) in cache) != deleted


def test_the_deletion_of_an_earlier_object_of_that_name_is_ignored() -> None:
    cache = Cache()
    cache.observe(item(version=9, uid="new"))
    assert cache.observe_deleted(item(version=8, uid="old")) is None
    assert len(cache) == 1


def test_late_events_do_not_bring_back_a_deleted_object() -> None:
    cache = Cache()
    cache.observe(item(version=5))
    cache.observe_deleted(item(version=8))
    assert cache.observe(item(version=7)) is None
    assert cache.observe(item(version=8)) is None


def test_an_object_that_left_the_selection_can_return() -> None:
    cache = Cache()
    cache.observe(item(version=5))
    cache.observe_deleted(item(version=8))
    assert cache.observe(item(version=9)) == Change(None, item(version=9))


def test_a_deleted_object_does_not_return_in_any_version() -> None:
    cache = Cache()
    cache.observe(item(version=5))
    assert cache.observe_gone("a", "n", "u") == Change(item(version=5), None)
    assert cache.observe(item(version=50)) is None
    assert cache.observe(item(version=51, uid="next")) is not None


def test_observe_gone_removes_only_the_object_with_the_uid() -> None:
    cache = Cache()
    cache.observe(item(version=5, uid="other"))
    assert cache.observe_gone("a", "n", "u") is None
    assert len(cache) == 1


def test_a_list_reports_only_differences() -> None:
    cache = Cache()
    for name in ("same", "changed", "missing"):
        cache.observe(item(name, 5, uid=name))
    changes = cache.replace(
        [item("same", 5, uid="same"), item("changed", 7, uid="changed"), item("new", 6, uid="n")], 8
    )
    assert [(c.old and c.old.name, c.new and c.new.name) for c in changes] == [
        ("changed", "changed"),
        (None, "new"),
        ("missing", None),
    ]


def test_a_reset_does_not_report_unchanged_objects() -> None:
    cache = Cache()
    cache.replace([item("a", 5)], 7)
    assert list(cache.replace([item("a", 5)], 3, reset=True)) == []
    (change,) = cache.replace([item("a", 4)], 3, reset=True)
    assert change.new is not None
    assert change.new.version == 4


def test_objects_newer_than_a_list_are_kept() -> None:
    cache = Cache()
    cache.observe(item("mine", 9))
    assert cache.replace([], 8) == []
    assert cache.replace([item("mine", 7)], 8) == []
    assert cache.get("a", "mine") == item("mine", 9)


@pytest.mark.parametrize(("version", "stays"), [(7, False), (8, False), (9, True)])
def test_objects_missing_from_a_list_are_removed_unless_they_are_newer(version: int, stays: bool) -> None:
    cache = Cache()
    cache.observe(item(version=version))
    assert cache.replace([], 8) == ([] if stays else [Change(item(version=version), None)])
    assert (("a", "n") in cache) == stays


def test_a_list_without_a_version_replaces_everything() -> None:
    cache = Cache()
    cache.observe(item(version=9))
    assert cache.replace([], 0) == [Change(item(version=9), None)]


def test_a_reset_replaces_everything_by_the_list() -> None:
    cache = Cache()
    cache.observe(item("back", 90))
    cache.observe(item("gone", 91, uid="g"))
    changes = cache.replace([item("back", 5)], 6, reset=True)
    assert changes == [Change(item("back", 90), item("back", 5)), Change(item("gone", 91, uid="g"), None)]


def test_a_list_of_one_namespace_does_not_change_others() -> None:
    cache = Cache()
    cache.observe(item("x", 1, namespace="a"))
    cache.observe(item("y", 1, namespace="b"))
    cache.replace([], 5, namespace="a")
    assert list(cache.keys()) == [("b", "y")]
    assert cache.namespaces() == ["b"]


def test_iteration_is_over_a_snapshot() -> None:
    cache = Cache()
    for number in range(3):
        cache.observe(item(str(number), 1, uid=str(number)))
    for each in cache.items():
        cache.observe_gone("a", each.name, each.uid)
    assert len(cache) == 0


def test_the_memory_of_deleted_objects_is_bounded() -> None:
    cache = Cache()
    for number in range(9000):
        cache.observe_gone("a", "n", str(number))
    assert len(cache._deleted) == 8192


History = list[tuple[str, int]]
_steps = st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), st.booleans()), max_size=30)


def history(steps: list[tuple[str, bool]]) -> list[Callable[[Cache], Change | None]]:
    """Return the events of a server for steps, each of which writes or deletes an object."""
    events: list[Callable[[Cache], Change | None]] = []
    uids: dict[str, str] = {}
    for version, (name, delete) in enumerate(steps, 1):
        if delete and name in uids:
            news = item(name, version, uid=uids.pop(name))
            events.append(lambda cache, news=news: cache.observe_deleted(news))  # type: ignore[misc]
        else:
            news = item(name, version, uid=uids.setdefault(name, f"{name}{version}"))
            events.append(lambda cache, news=news: cache.observe(news))  # type: ignore[misc]
    return events


@settings(deadline=None)
@given(_steps, st.randoms(use_true_random=False))
def test_repeated_and_late_events_change_nothing(steps: list[tuple[str, bool]], random: object) -> None:
    """Replaying a stream from any earlier event leads to the same state."""
    events = history(steps)
    once, again = Cache(), Cache()
    for event in events:
        event(once)
    for position, event in enumerate(events):
        event(again)
        start = random.randint(0, position)  # type: ignore[attr-defined]
        for late in events[start:position]:
            late(again)
    assert sorted(once.items(), key=lambda i: i.name) == sorted(again.items(), key=lambda i: i.name)


@settings(deadline=None)
@given(_steps, _steps)
def test_changes_replayed_give_the_cache(
    before: list[tuple[str, bool]], after: list[tuple[str, bool]]
) -> None:
    """Applying all reported changes gives the content of the cache."""
    cache, follower = Cache(), {}
    changes = [change for event in history(before) if (change := event(cache)) is not None]
    listed = [item(name, 100 + number, uid=name) for number, (name, _) in enumerate(dict(after).items())]
    changes += cache.replace(listed, 200)
    for change in changes:
        subject = change.new or change.old
        assert subject is not None
        assert follower.get(subject.key) == change.old
        if change.new is None:
            del follower[subject.key]
        else:
            follower[subject.key] = change.new
    assert follower == {each.key: each for each in cache.items()}
