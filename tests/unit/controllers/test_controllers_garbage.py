"""The garbage collector's decisions: deleted and kept dependents, and the end of every history."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from counted_work import work_of
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from vcsync.controllers.framework.mirror import placed
from vcsync.controllers.garbagecollector import garbage_collector_plan as gc_decide
from vcsync.controllers.garbagecollector.garbage_collector_plan import (
    Disown,
    Release,
    Remove,
    Standing,
    Unblock,
    decide,
    needs_owners,
)
from vcsync.controllers.garbagecollector.graph import FOREGROUND, ORPHAN, Graph, Node, Uid
from vcsync.kube.cache import Change
from vcsync.kube.resources import CONFIG_MAPS, NODES
from vcsync.objects.envelope import Envelope, OwnerReference
from vcsync.objects.merge_patch import merge_patch

TENANT = "acme"
NOW = "2026-01-01T00:00:00Z"


def owner(name: str, *, block: bool = False) -> OwnerReference:
    return OwnerReference("v1", "ConfigMap", name, f"uid-{name}", blockOwnerDeletion=block)


class Cluster:
    """ConfigMaps of one namespace, and the collector that processes them."""

    def __init__(self) -> None:
        self.objects: dict[str, Envelope] = {}
        self.graph = Graph()
        self.waiting: list[Uid] = []

    def put(self, name: str, *owners: OwnerReference, finalizers: Sequence[str] = ()) -> None:
        before = self.objects.get(name)
        envelope = Envelope(name, "default", f"uid-{name}", owners=owners, finalizers=tuple(finalizers))
        self._set(name, before, placed(envelope, TENANT))

    def delete(self, name: str, finalizer: str = "") -> None:
        """Delete as a user does, in the background unless a finalizer is given."""
        there = self.objects.get(name)
        if there is None:
            return
        kept = [each for each in there.finalizers if each not in (ORPHAN, FOREGROUND)]
        finalizers = tuple(kept + [finalizer] * bool(finalizer))
        if not finalizers:
            self._set(name, there, None)
        else:
            self._set(name, there, replace(there, finalizers=finalizers, deletion_timestamp=NOW))

    def remove(self, name: str) -> None:
        """Remove an object immediately."""
        self._set(name, self.objects[name], None)

    def settle(self, again: bool = True) -> None:
        """Work until no object is queued; `again`: first queue all objects, as a restart does."""
        if again:
            self.waiting += [each.id for each in self.graph.everything() if self.graph.concerns(each)]
        for _ in range(500):
            if not self.waiting:
                return
            self.look_at(self.waiting.pop(0))
        raise AssertionError("it does not settle")

    def look_at(self, uid: Uid) -> None:
        node = self.graph.get(uid)
        if node is None:
            return
        owners = {each.uid: self._standing(node, each) for each in node.envelope.owners}
        decision = decide(self.graph, node, owners if needs_owners(node) else {})
        for step in decision.steps:
            there = self.objects.get(step.node.envelope.name)
            if there is None:
                continue
            if isinstance(step, Remove):
                finalizer = {"Orphan": ORPHAN, "Foreground": FOREGROUND, "Background": ""}[step.propagation]
                self.delete(there.name, finalizer)
            elif patch := gc_decide.change(step, there):
                self._patch(there, patch["metadata"])
        self.waiting += decision.look_at

    def _standing(self, node: Node, reference: OwnerReference) -> Standing:
        known = self.graph.owner(node, reference)
        return known if known in ("solid", "waiting") else "dangling"

    def _patch(self, there: Envelope, patch: dict[str, Any]) -> None:
        owners = [
            {"uid": each.uid, "name": each.name, "block": each.blockOwnerDeletion} for each in there.owners
        ]
        merged = merge_patch({"finalizers": list(there.finalizers), "ownerReferences": owners}, patch)
        after = replace(
            there,
            finalizers=tuple(merged.get("finalizers") or ()),
            owners=tuple(
                owner(each["name"], block=each.get("blockOwnerDeletion", each.get("block")) or False)
                for each in merged.get("ownerReferences") or ()
            ),
        )
        self._set(there.name, there, None if after.deleting and not after.finalizers else after)

    def _set(self, name: str, before: Envelope | None, after: Envelope | None) -> None:
        if after is None:
            self.objects.pop(name, None)
        else:
            self.objects[name] = after
        self.waiting += self.graph.change(CONFIG_MAPS, Change(before, after))


def names(cluster: Cluster) -> set[str]:
    return set(cluster.objects)


def family() -> Cluster:
    cluster = Cluster()
    cluster.put("a")
    cluster.put("b", owner("a", block=True))
    cluster.put("c", owner("b", block=True))
    cluster.settle()
    return cluster


def test_dependents_are_deleted_with_their_only_owner() -> None:
    cluster = family()
    cluster.delete("a")
    cluster.settle(again=False)
    assert names(cluster) == set()


def test_foreground_deletion_waits_for_held_dependents() -> None:
    cluster = family()
    cluster.put("c", owner("b", block=True), finalizers=["example.com/hold"])
    cluster.delete("a", FOREGROUND)
    cluster.settle(again=False)
    assert {name: each.deleting for name, each in cluster.objects.items()} == dict.fromkeys("abc", True)
    cluster.remove("c")
    cluster.settle(again=False)
    assert names(cluster) == set()


def test_owners_wait_only_for_dependents_that_block_them() -> None:
    cluster = Cluster()
    cluster.put("a")
    cluster.put("b", owner("a"), finalizers=["example.com/hold"])
    cluster.delete("a", FOREGROUND)
    cluster.settle(again=False)
    assert names(cluster) == {"b"}


def test_foreground_deletion_deletes_everything() -> None:
    cluster = family()
    cluster.delete("a", FOREGROUND)
    cluster.settle(again=False)
    assert names(cluster) == set()


def test_orphans_lose_their_owner_reference() -> None:
    cluster = family()
    cluster.delete("a", ORPHAN)
    cluster.settle(again=False)
    assert names(cluster) == {"b", "c"}
    assert cluster.objects["b"].owners == ()


def test_a_dependent_with_another_owner_loses_only_the_missing_reference() -> None:
    cluster = Cluster()
    cluster.put("a")
    cluster.put("b")
    cluster.put("c", owner("a"), owner("b"))
    cluster.delete("a")
    cluster.settle(again=False)
    assert [each.name for each in cluster.objects["c"].owners] == ["b"]


def test_another_object_of_the_owners_name_is_not_the_owner() -> None:
    cluster = Cluster()
    cluster.put("a")
    cluster.put("b", replace(owner("a"), uid="uid-of-an-earlier-one"))
    cluster.settle(again=False)
    assert names(cluster) == {"a"}


def test_a_circle_without_finalizers_is_deleted_in_the_foreground() -> None:
    cluster = Cluster()
    cluster.put("a")
    cluster.put("b", owner("a", block=True))
    cluster.put("a", owner("b", block=True))
    cluster.settle()
    assert names(cluster) == {"a", "b"}
    cluster.delete("a", FOREGROUND)
    cluster.settle(again=False)
    assert names(cluster) == set()


def test_circles_whose_members_wait_for_each_other_are_deleted() -> None:
    cluster = Cluster()
    for name, its in (("a", "c"), ("b", "a"), ("c", "b")):
        cluster.put(name, owner(its, block=True))
    for name in "abc":
        cluster.delete(name, FOREGROUND)
    cluster.settle(again=False)
    assert names(cluster) == set()


def test_a_circle_still_waits_for_others() -> None:
    cluster = Cluster()
    cluster.put("a", owner("b", block=True))
    cluster.put("b", owner("a", block=True))
    cluster.put("c", owner("a", block=True), finalizers=["example.com/hold"])
    for name in "ab":
        cluster.delete(name, FOREGROUND)
    cluster.settle(again=False)
    assert names(cluster) == {"a", "b", "c"}
    cluster.remove("c")
    cluster.settle(again=False)
    assert names(cluster) == set()


def node(name: str, *owners: OwnerReference, **fields: Any) -> Node:
    namespace = fields.pop("namespace", "default")
    tenant = fields.pop("tenant", TENANT)
    return Node(
        CONFIG_MAPS, placed(Envelope(name, namespace, f"uid-{name}", owners=owners, **fields), tenant)
    )


def graph(*nodes: Node) -> Graph:
    made = Graph()
    for each in nodes:
        made.change(each.resource, Change(None, each.envelope))
    return made


def test_an_owner_in_another_namespace_does_not_count() -> None:
    dependent = node("b", owner("a"))
    made = graph(node("a", namespace="elsewhere"), dependent)
    assert made.owner(dependent, owner("a")) == "elsewhere"
    assert made.concerns(dependent)


def test_a_cluster_scoped_owner_has_dependents_in_all_namespaces() -> None:
    reference = OwnerReference("v1", "Node", "n", "uid-n")
    dependent = node("b", reference)
    made = graph(Node(NODES, placed(Envelope("n", "", "uid-n"), TENANT)), dependent)
    assert made.owner(dependent, reference) == "solid"


def test_owner_references_do_not_cross_tenants() -> None:
    dependent = node("b", owner("a"), tenant="umbrella")
    made = graph(node("a"), dependent)
    assert made.owner(dependent, owner("a")) == "unknown"
    assert made.dependents(node("a").id) == []


def test_a_deletion_keeps_the_finalizer_of_the_propagation_policy() -> None:
    for finalizer, propagation in ((ORPHAN, "Orphan"), (FOREGROUND, "Foreground"), ("x/y", "Background")):
        gone = node("b", owner("a"), finalizers=(finalizer,))
        decision = decide(graph(gone), gone, {"uid-a": "dangling"})
        assert decision.steps == (Remove(gone, propagation),)  # type: ignore[arg-type]


def test_patches_have_uid_and_version_and_change_nothing_else() -> None:
    held = node("b", owner("a", block=True), owner("c"), finalizers=(ORPHAN, "x/y"), resource_version="7")
    metadata = {"uid": "uid-b", "resourceVersion": "7"}
    rest = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "uid-c", "blockOwnerDeletion": False}
    for step, wanted in (
        (Release(held, ORPHAN), {"finalizers": ["x/y"]}),
        (Disown(held, frozenset(["uid-a"])), {"ownerReferences": [rest]}),
    ):
        assert gc_decide.change(step, held.envelope) == {"metadata": {**metadata, **wanted}}
    unblocked = gc_decide.change(Unblock(held), held.envelope)
    assert unblocked is not None
    assert not any(each["blockOwnerDeletion"] for each in unblocked["metadata"]["ownerReferences"])


def test_a_completed_step_is_not_written_again() -> None:
    free = node("b")
    for step in (Release(free, ORPHAN), Disown(free, frozenset(["uid-a"])), Unblock(free)):
        assert gc_decide.change(step, free.envelope) is None


NAMES = "abcde"
owners_of = st.lists(st.sampled_from(NAMES), max_size=2, unique=True)
moves = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(NAMES), owners_of, st.booleans()),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.sampled_from(["", ORPHAN, FOREGROUND])),
    st.just(("settle",)),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(moves, max_size=12))
def test_after_any_history_nothing_waits_and_no_object_has_only_absent_owners(history: Iterable[Any]) -> None:
    cluster = Cluster()
    for move in history:
        if move[0] == "put" and (move[1] not in cluster.objects or not cluster.objects[move[1]].deleting):
            cluster.put(move[1], *(owner(each, block=move[3]) for each in move[2]))
        elif move[0] == "delete":
            cluster.delete(move[1], move[2])
        elif move[0] == "settle":
            cluster.settle(again=False)
    cluster.settle(again=False)
    there = {each.uid for each in cluster.objects.values()}
    for each in cluster.objects.values():
        assert not each.deleting
        assert not each.owners or any(owner.uid in there for owner in each.owners)
    before = dict(cluster.objects)
    cluster.settle(again=True)
    assert cluster.objects == before


def steps_of_an_end(count: int, *, foreground: bool) -> int:
    """Return the steps that the change of an owner with so many dependents takes."""
    before = node("a")
    made = graph(before, *(node(f"b-{number}", owner("a")) for number in range(count)))
    after = node("a", finalizers=(FOREGROUND,), deletion_timestamp=NOW).envelope if foreground else None
    found: list[Uid] = []
    work = work_of(lambda: found.extend(made.change(CONFIG_MAPS, Change(before.envelope, after))))
    assert list(made.crowds) == [before.id]
    assert len(found) <= 1
    assert len(made.crowd()) == count
    assert not made.crowds
    return work.steps


@pytest.mark.parametrize("foreground", [True, False])
def test_the_end_of_an_owner_does_not_look_at_its_many_dependents(foreground: bool) -> None:
    small, large = (steps_of_an_end(count, foreground=foreground) for count in (300, 1200))
    assert large <= 1.1 * small + 50


def test_few_dependents_are_examined_at_once() -> None:
    before = node("a")
    made = graph(before, *(node(f"b-{number}", owner("a")) for number in range(3)))
    assert len(list(made.change(CONFIG_MAPS, Change(before.envelope, None)))) == 3
    assert not made.crowds
