"""Finds the objects whose selector matches some labels, without looking at all objects. Pure.

A selector with a requirement `key=value` is filed under that pair, and looked at only if the labels have the pair. Each other
selector is looked at for all labels of its namespace.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import DecodeError, Struct

from vcsync.kube.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.selectors import InvalidSelector, LabelSelector, Selector, compile_selector

MOST_TERMS = 100
"""Most requirements and values of a selector that is kept; each takes some 100 bytes."""
TERMS_AT_ONCE = 500
"""Most requirements and values that one search looks at; each takes about a microsecond."""
OBJECTS_AT_ONCE = 50
BYTES_AT_ONCE = 256 * 1024
"""Most objects that one event handler decodes, and most bytes of them."""
LOOKED_AT_ONCE = 200
LOOKED_BYTES_AT_ONCE = 1024 * 1024
"""Most objects that one event handler looks at to find those that an event concerns, and most bytes of them."""

SelectorOf = Callable[[Envelope], Selector | None]


class Crowded(Exception):
    """An event may concern more objects of a namespace than one turn of the event loop looks at."""


def few(found: Iterable[Envelope], most: int = OBJECTS_AT_ONCE, size: int = BYTES_AT_ONCE) -> list[Envelope]:
    """Return objects that an event handler may decode.

    Raises:
        Crowded: They are more than `most`, or have more than `size` bytes.
    """
    listed = list(found)
    if len(listed) > most:
        raise Crowded
    if sum(len(each.spec) + len(each.status) + len(each.rest) for each in listed) > size:
        raise Crowded
    return listed


_Drawer = tuple[str, str, str] | str
"""A namespace and the key and value of a label; or only a namespace, for selectors that require no pair."""


class SelectorIndex:
    """The selectors of the objects of one resource, by namespace."""

    def __init__(self) -> None:
        self._drawers: dict[_Drawer, dict[str, Selector | None]] = {}
        self._places: dict[tuple[str, str], _Drawer] = {}

    def put(self, namespace: str, name: str, selector: Selector | None) -> None:
        """File or replace the selector of an object. None: the object selects nothing."""
        self.drop(namespace, name)
        if selector is None:
            return
        pairs = [
            (namespace, each.key, each.values[0])
            for each in selector.expressions
            if each.operator == "In" and len(each.values) == 1
        ]
        # Where all objects have one pair in common, another pair of theirs tells them apart.
        drawer = min(pairs, key=lambda pair: len(self._drawers.get(pair, ())), default=namespace)
        kept = None if _terms(selector) > MOST_TERMS else selector
        self._drawers.setdefault(drawer, {})[name] = kept
        self._places[namespace, name] = drawer

    def drop(self, namespace: str, name: str) -> None:
        """Forget the selector of an object, if it has one."""
        drawer = self._places.pop((namespace, name), None)
        if drawer is None:
            return
        names = self._drawers[drawer]
        del names[name]
        if not names:
            del self._drawers[drawer]

    def matching(self, namespace: str, labels: Mapping[str, str]) -> list[str]:
        """Return the names of the objects that select these labels.

        Raises:
            Crowded: Too many selectors, or too long ones, would have to be looked at.
        """
        drawers: list[_Drawer] = [namespace, *((namespace, *pair) for pair in labels.items())]
        found, terms = list[str](), 0
        for drawer in drawers:
            for name, selector in self._drawers.get(drawer, {}).items():
                terms += MOST_TERMS if selector is None else _terms(selector)
                if selector is None or terms > TERMS_AT_ONCE:
                    raise Crowded
                if selector.matches(labels):
                    found.append(name)
        return found


def _terms(selector: Selector) -> int:
    return 1 + sum(1 + len(each.values) for each in selector.expressions)


# ---- The selectors of objects --------------------------------------------------------------


class _Service(Struct):
    selector: dict[str, str] | None = None
    type: str = ""


class _Set(Struct):
    selector: LabelSelector = LabelSelector()


class _ReplicationController(Struct):
    selector: dict[str, str] | None = None


class _Reference(Struct):
    uid: str = ""


class _Volume(Struct, rename="camel"):
    claim_ref: _Reference | None = None


class _Budget(Struct):
    selector: LabelSelector | None = None


def _of_service(service: Envelope) -> Selector | None:
    spec = decode(service.spec, _Service)
    if spec.type == "ExternalName" or not spec.selector:
        return None
    return compile_selector(LabelSelector(spec.selector))


def _of_set(envelope: Envelope) -> Selector:
    return compile_selector(decode(envelope.spec, _Set).selector)


def _of_replication_controller(envelope: Envelope) -> Selector:
    return compile_selector(LabelSelector(decode(envelope.spec, _ReplicationController).selector or {}))


def _of_budget(budget: Envelope) -> Selector | None:
    selector = decode(budget.spec, _Budget).selector
    return None if selector is None else compile_selector(selector)


def uid_label(uid: str) -> dict[str, str]:
    """Return the label by which a PersistentVolume selects its claim in the index. No claim has it as a label."""
    return {"": uid}


def _of_volume(volume: Envelope) -> Selector | None:
    reference = decode(volume.spec, _Volume).claim_ref
    if reference is None or not reference.uid:
        return None
    return compile_selector(LabelSelector(uid_label(reference.uid)))


def _valid(read: SelectorOf) -> SelectorOf:
    """Return a function that returns None for a selector that no API server would accept."""

    def selector(envelope: Envelope) -> Selector | None:
        try:
            return read(envelope)
        except (DecodeError, InvalidSelector):
            return None

    return selector


SELECTORS: Mapping[Resource, SelectorOf] = {
    SERVICES: _valid(_of_service),
    POD_DISRUPTION_BUDGETS: _valid(_of_budget),
    PERSISTENT_VOLUMES: _valid(_of_volume),
    REPLICATION_CONTROLLERS: _valid(_of_replication_controller),
    **dict.fromkeys((REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS), _valid(_of_set)),
}
"""Resources whose objects select others, and the selector of an object: of labels, or of a UID."""
