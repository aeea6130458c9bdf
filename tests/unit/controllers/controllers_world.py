"""A tenant's objects in memory; executes the actions of controllers until they return none."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonpatch

from vcsync.controllers.framework.mirror import Key, placed
from vcsync.controllers.framework.plan import (
    Absent,
    Action,
    Controller,
    Create,
    Delete,
    Emit,
    Failure,
    Outcome,
    Patch,
    Plan,
    Post,
    View,
)
from vcsync.controllers.framework.selector_index import SELECTORS
from vcsync.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Status
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope, encode, parse
from vcsync.objects.merge_patch import merge_patch

TENANT = "acme"
NAMESPACE = "default"


class Shelf:
    """The objects of one resource, as `plan.Objects`."""

    def __init__(self, resource: Resource | None = None) -> None:
        self.resource = resource
        self.bodies: dict[tuple[str, str], dict[str, Any]] = {}

    def get(self, tenant: str, namespace: str, name: str) -> Envelope | None:
        body = self.bodies.get((namespace, name))
        return None if body is None else self._envelope(tenant, body)

    def within(self, tenant: str, namespace: str = "") -> Iterable[Envelope]:
        return [
            self._envelope(tenant, body) for (where, _), body in self.bodies.items() if where == namespace
        ]

    def count(self, tenant: str, namespace: str) -> int:
        return len(list(self.within(tenant, namespace)))

    def total(self, tenant: str) -> int:
        return len(list(self.everything()))

    def everything(self) -> Iterable[Envelope]:
        return [self._envelope(TENANT, body) for body in self.bodies.values()]

    def owned(self, uid: str) -> list[Envelope]:
        return [each for each in self.everything() if any(owner.uid == uid for owner in each.owners)]

    def count_owned(self, uid: str) -> int:
        return len(self.owned(uid))

    def orphans(self, tenant: str, namespace: str) -> list[Envelope]:
        return [each for each in self.within(tenant, namespace) if not each.owners]

    def selecting(self, tenant: str, namespace: str, *labels: Mapping[str, str]) -> list[Envelope]:
        assert self.resource is not None
        read = SELECTORS[self.resource]
        selectors = [(each, read(each)) for each in self.within(tenant, namespace)]
        return [each for each, its in selectors if its is not None and any(map(its.matches, labels))]

    @staticmethod
    def _envelope(tenant: str, body: Mapping[str, Any]) -> Envelope:
        return placed(parse(encode(body)), tenant)


class World:
    """One tenant. `refuse` is called with every action and may return the error that it fails with."""

    def __init__(self, controllers: Sequence[Controller]) -> None:
        self.controllers = {each.name: each for each in controllers}
        self.shelves: dict[Resource, Shelf] = {}
        for controller in controllers:
            for resource in (*(watch.resource for watch in controller.watches), *controller.reads):
                self.shelves.setdefault(resource, Shelf(resource))
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.events: list[Emit] = []
        self.written: list[Action] = []
        self.refusals: list[tuple[type[Action], ApiError]] = []
        self._serial = itertools.count(1)

    # The API

    def put(self, resource: Resource, body: dict[str, Any], namespace: str = NAMESPACE) -> dict[str, Any]:
        """Store an object as a user would; return the stored object."""
        metadata = dict(body.get("metadata", {}))
        shelf = self.shelves.setdefault(resource, Shelf(resource))
        where = namespace if resource.namespaced else ""
        before = shelf.bodies.get((where, metadata["name"]))
        serial = next(self._serial)
        metadata |= {"resourceVersion": str(serial)}
        if where:
            metadata["namespace"] = where
        if before is None:
            metadata.setdefault("uid", f"uid-{serial}")
            metadata.setdefault("creationTimestamp", self.time())
            metadata.setdefault("generation", 1)
        elif before.get("spec") != body.get("spec"):
            metadata["generation"] = before["metadata"].get("generation", 1) + 1
        stored = {**body, "metadata": metadata}
        shelf.bodies[where, metadata["name"]] = stored
        return stored

    def change(
        self, resource: Resource, name: str, patch: dict[str, Any], namespace: str = NAMESPACE
    ) -> None:
        """Merge-patch an object."""
        where = namespace if resource.namespaced else ""
        self.put(resource, merge_patch(self.shelves[resource].bodies[where, name], patch), namespace)

    def remove(self, resource: Resource, name: str, namespace: str = NAMESPACE) -> None:
        """Remove an object immediately."""
        self.shelves[resource].bodies.pop((namespace if resource.namespaced else "", name), None)

    def body(self, resource: Resource, name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
        """Return an object."""
        return self.shelves[resource].bodies[namespace if resource.namespaced else "", name]

    def bodies(self, resource: Resource) -> list[dict[str, Any]]:
        """Return all objects of a resource."""
        return list(self.shelves[resource].bodies.values())

    def time(self) -> str:
        """Return the current time as RFC 3339 text."""
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    # Controllers at work

    def settle(self, rounds: int = 200) -> None:
        """Reconcile every object with its controller until no controller returns an action."""
        for _ in range(rounds):
            before = len(self.written)
            for name, controller in self.controllers.items():
                for envelope in list(self.shelves[controller.watches[0].resource].everything()):
                    where = envelope.namespace.partition("/")[2]
                    self.work(name, Key(TENANT, where, envelope.name))
            if len(self.written) == before:
                return
        raise AssertionError(f"it does not settle: {self.written[-3:]}")

    def work(self, controller: str, key: Key) -> Plan:
        """Reconcile one object with a controller, and execute the actions."""
        plan = self.controllers[controller].plan(self.view(), key)
        outcome = self._steps(plan.steps)
        if plan.finish is not None:
            self._steps([[action] for action in plan.finish(self.view(), outcome)])
        return plan

    @staticmethod
    def key(namespace: str, name: str) -> Key:
        """Return the key of one of the tenant's objects."""
        return Key(TENANT, namespace, name)

    def view(self) -> View:
        """Return the input of plans."""
        return View(self.shelves, self.now, lambda: f"{next(self._serial):05d}")

    def _steps(self, steps: Sequence[Sequence[Action]]) -> Outcome:
        done: list[Action] = []
        for action in itertools.chain.from_iterable(steps):
            try:
                self._do(action)
            except ApiError as error:
                return Outcome(done, [Failure(action, error)])
            done.append(action)
        return Outcome(done)

    def _do(self, action: Action) -> None:
        for refusal in self.refusals:
            if isinstance(action, refusal[0]):
                self.refusals.remove(refusal)
                raise refusal[1]
        if isinstance(action, Emit):
            self.events.append(action)
            return
        if isinstance(action, Absent):
            there = self.shelves[action.resource].bodies.get((action.namespace, action.name))
            if there is not None and there["metadata"]["uid"] == action.uid:
                raise Conflict(Status(409, "Conflict"))
            return
        self.written.append(action)
        shelf = self.shelves.setdefault(action.resource, Shelf())
        if isinstance(action, Create):
            if (action.namespace, action.body["metadata"]["name"]) in shelf.bodies:
                raise AlreadyExists(Status(409, "AlreadyExists"))
            self.put(action.resource, action.body, action.namespace)
            return
        body = shelf.bodies.get((action.namespace, action.name))
        if body is None:
            raise NotFound(Status(404, "NotFound"))
        if isinstance(action, Delete):
            self._delete(action, body)
        elif isinstance(action, Patch):
            self._patch(action, body)
        else:
            assert isinstance(action, Post)

    def _delete(self, action: Delete, body: dict[str, Any]) -> None:
        if action.uid and body["metadata"]["uid"] != action.uid:
            raise Conflict(Status(409, "Conflict"))
        if body["metadata"].get("finalizers"):
            metadata = body["metadata"] | {"deletionTimestamp": self.time()}
            self.put(action.resource, body | {"metadata": metadata}, action.namespace)
        else:
            self.remove(action.resource, action.name, action.namespace)

    def _patch(self, action: Patch, body: dict[str, Any]) -> None:
        if action.kind == "json":
            assert not isinstance(action.patch, Mapping)
            self.put(action.resource, _json_patched(body, action.patch), action.namespace)
            return
        assert isinstance(action.patch, Mapping)
        patch = dict(action.patch)
        metadata = dict(patch.get("metadata", {}))
        for name in ("uid", "resourceVersion"):
            if name in metadata and metadata.pop(name) != body["metadata"].get(name):
                raise Conflict(Status(409, "Conflict"))
        if action.kind == "strategic" and "ownerReferences" in metadata:
            metadata["ownerReferences"] = _owners(body, metadata["ownerReferences"])
        if given_up := metadata.pop("$deleteFromPrimitiveList/finalizers", None):
            left = [each for each in body["metadata"].get("finalizers", ()) if each not in given_up]
            metadata["finalizers"] = left or None
        self.put(action.resource, merge_patch(body, patch | {"metadata": metadata}), action.namespace)
        after = self.body(action.resource, action.name, action.namespace)["metadata"]
        if given_up and "deletionTimestamp" in after and "finalizers" not in after:
            self.remove(action.resource, action.name, action.namespace)


def _owners(body: Mapping[str, Any], changes: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Merge owner references by uid, as a strategic merge patch does."""
    owners = {each["uid"]: each for each in body["metadata"].get("ownerReferences", ())}
    for each in changes:
        if each.get("$patch") == "delete":
            owners.pop(each["uid"], None)
        else:
            owners[each["uid"]] = {**owners.get(each["uid"], {}), **each}
    return list(owners.values())


def _json_patched(body: Mapping[str, Any], patch: Iterable[Any]) -> dict[str, Any]:
    patched: dict[str, Any] = jsonpatch.apply_patch(body, list(patch))
    return patched


class Crash(Exception):
    """A controller dies before a write."""


class Mortal(World):
    """A world whose controllers may die between any two writes and then lose their memory."""

    writes_left: int | None = None

    def _do(self, action: Action) -> None:
        if self.writes_left is not None:
            if self.writes_left == 0:
                raise Crash
            self.writes_left -= 1
        super()._do(action)

    def live_for(self, writes: int) -> None:
        self.writes_left = writes
        try:
            self.settle()
        except Crash:
            pass
        finally:
            self.writes_left = None
