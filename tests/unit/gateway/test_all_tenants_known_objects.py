"""Memory of a watch for the objects that it has reported."""

from vcsync.gateway.all_tenants.known_objects import Budget, KnownObjects, Memories, ObjectState

OWNER = b"umbre"
A, B = ObjectState("shop", "a", "u-a", "5"), ObjectState("shop", "b", "u-b", "6")


def told(budget: Budget, *objects: ObjectState) -> KnownObjects:
    found = KnownObjects(budget, OWNER)
    for each in objects:
        found.add(each)
    return found


def test_objects_are_remembered_by_their_last_state() -> None:
    found = told(Budget(), A, B, A._replace(version="9"))
    assert {each.name: each.version for each in found.objects.values()} == {"a": "9", "b": "6"}
    found.remove(B)
    assert list(found.objects) == [("shop", "a")]


def test_what_does_not_fit_is_forgotten_as_a_whole() -> None:
    budget = Budget(1)
    found = told(budget, A, B)
    assert (found.whole, len(found), budget.used) == (False, 0, 0)
    found.add(A)
    assert len(found) == 0


def test_an_object_that_does_not_say_who_it_is_makes_the_rest_useless() -> None:
    budget = Budget()
    found = told(budget, A)
    found.add(None)
    assert (found.whole, budget.used) == (False, 0)


def test_a_memory_is_kept_for_the_request_that_continues() -> None:
    budget = Budget()
    memories = Memories(budget)
    memories.keep(
        "/api/v1/pods?", "token", {b"umbre": told(budget, A), b"other": KnownObjects.unknown(budget, OWNER)}
    )
    assert memories.recall("/api/v1/pods?", "another") == {}
    assert memories.recall("/api/v1/secrets?", "token") == {}
    found = memories.recall("/api/v1/pods?", "token")
    assert list(found) == [b"umbre"]
    assert found[b"umbre"].objects == {A.key: A}
    found[b"umbre"].remove(A)
    assert memories.recall("/api/v1/pods?", "token")[b"umbre"].objects == {A.key: A}


def test_the_oldest_memories_make_room() -> None:
    budget = Budget(16)
    memories = Memories(budget, most=2)
    for name in ("first", "second", "third"):
        memories.make_room()
        memories.keep("request", name, {b"umbre": told(budget, A)})
    assert memories.recall("request", "first") == {}
    assert budget.used == 2
    for owner in (b"a", b"b", b"c"):
        for number in range(3):
            assert budget.take(owner), number
    memories.make_room()
    assert memories.recall("request", "second") == {}


def test_one_control_plane_does_not_crowd_the_others_out() -> None:
    budget = Budget(8)
    first = told(budget, A, B, A._replace(name="c"))
    assert (first.whole, budget.used) == (False, 0)
    assert told(budget, A, B).whole
    other = KnownObjects(budget, b"other")
    other.add(A)
    assert other.whole
