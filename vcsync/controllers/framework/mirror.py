"""One resource of all tenants, kept by one watch, indexed by tenant, namespace and name, and by owner."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from vcsync.controllers.framework.selector_index import SelectorIndex, SelectorOf
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope

Project = Callable[[Envelope], Envelope]


class Key(NamedTuple):
    """The key of an object: `namespace` is empty if its resource is not namespaced."""

    tenant: str
    namespace: str
    name: str


def key_of(envelope: Envelope) -> Key:
    """Return the key of a mirror's envelope."""
    return Key(envelope.tenant, namespace_of(envelope), envelope.name)


def namespace_of(envelope: Envelope) -> str:
    """Return the namespace of a mirror's envelope."""
    return envelope.namespace.partition("/")[2]


def placed(envelope: Envelope, tenant: str) -> Envelope:
    """Return an envelope as mirrors store it: its `namespace` starts with its tenant."""
    return replace(envelope, namespace=f"{tenant}/{envelope.namespace}", tenant=tenant)


class Mirror:
    """All objects of a resource in all tenants, or in one.

    Args:
        client: client across all tenants, or of the tenant.
        resource: resource of the objects.
        project: reduces an object before it is kept.
        tenant: tenant of the objects; empty: each object names its own.
        fields: field selector; empty: all objects are kept.
        selector: returns the selector of an object, for `selecting`.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        project: Project | None = None,
        *,
        tenant: str = "",
        fields: str = "",
        selector: SelectorOf | None = None,
    ) -> None:
        self.resource = resource
        self.whole = not fields
        self._tenant = tenant
        self._totals: Counter[str] = Counter()
        self._owned: dict[_Drawer, dict[tuple[str, str], None]] = {}
        self._selector = selector
        self._selectors = SelectorIndex()
        self._subscribers: list[Callable[[Change], None]] = []
        self.reflector = Reflector(
            client,
            resource,
            field_selector=fields,
            project=project,
            place=self._place,
            sink=self._changed,
        )

    def subscribe(self, callback: Callable[[Change], None]) -> None:
        """Call the callback with every change, synchronously; it must return quickly."""
        self._subscribers.append(callback)

    def get(self, tenant: str, namespace: str, name: str) -> Envelope | None:
        """Return an object; None: it does not exist."""
        return self.reflector.cache.get(f"{tenant}/{namespace}", name)

    def within(self, tenant: str, namespace: str = "") -> Iterator[Envelope]:
        """Iterate over the objects of one namespace, or of a resource that is not namespaced."""
        return self.reflector.cache.items(f"{tenant}/{namespace}")

    def count(self, tenant: str, namespace: str) -> int:
        """Return the number of objects in a namespace."""
        return self.reflector.cache.count(f"{tenant}/{namespace}")

    def total(self, tenant: str) -> int:
        """Return the number of objects in all namespaces of a tenant."""
        return self._totals[tenant]

    def everything(self) -> Iterator[Envelope]:
        """Iterate over the objects of all tenants."""
        return self.reflector.cache.items()

    def owned(self, uid: str) -> list[Envelope]:
        """Return the objects that name this owner."""
        return self._filed(uid)

    def count_owned(self, uid: str) -> int:
        """Return the number of objects that name this owner."""
        return len(self._owned.get(uid, ()))

    def orphans(self, tenant: str, namespace: str) -> list[Envelope]:
        """Return the objects of a namespace that name no owner."""
        return self._filed((f"{tenant}/{namespace}",))

    def selecting(self, tenant: str, namespace: str, *labels: Mapping[str, str]) -> list[Envelope]:
        """Return the objects of a namespace whose selector matches any of some labels.

        Raises:
            Crowded: Too many selectors would have to be looked at.
        """
        place = f"{tenant}/{namespace}"
        names = dict.fromkeys(name for each in labels for name in self._selectors.matching(place, each))
        found = (self.reflector.cache.get(place, name) for name in names)
        return [each for each in found if each is not None]

    def observe(self, tenant: str, envelope: Envelope) -> None:
        """Record the server's answer to a write."""
        self.reflector.observe(placed(envelope, tenant))

    def observe_gone(self, key: Key, uid: str) -> None:
        """Record that an object is gone."""
        self.reflector.observe_gone(f"{key.tenant}/{key.namespace}", key.name, uid)

    def _place(self, envelope: Envelope) -> Envelope:
        return placed(envelope, self._tenant or envelope.tenant)

    def _filed(self, under: "_Drawer") -> list[Envelope]:
        cache = self.reflector.cache
        # A copy, as large plans read in threads while the event loop changes the index.
        found = (cache.get(*place) for place in tuple(self._owned.get(under, ())))
        return [each for each in found if each is not None]

    def _changed(self, change: Change) -> None:
        if change.old is None and change.new is not None:
            self._totals[change.new.tenant] += 1
        elif change.new is None and change.old is not None:
            self._totals[change.old.tenant] -= 1
            if not self._totals[change.old.tenant]:
                del self._totals[change.old.tenant]
        if change.old is not None:
            for uid in _filed_under(change.old):
                mine = self._owned.get(uid, {})
                mine.pop(change.old.key, None)
                if not mine:
                    self._owned.pop(uid, None)
        if change.new is not None:
            for uid in _filed_under(change.new):
                self._owned.setdefault(uid, {})[change.new.key] = None
        if self._selector is not None:
            self._index(change, self._selector)
        for callback in self._subscribers:
            callback(change)

    def _index(self, change: Change, selector: SelectorOf) -> None:
        old, new = change.old, change.new
        if new is None:
            if old is not None:
                self._selectors.drop(*old.key)
        elif old is None or old.spec != new.spec:
            self._selectors.put(*new.key, selector(new))


_Drawer = str | tuple[str]
"""A UID, or a namespace in a form that differs from every UID that a tenant can write."""


def _filed_under(envelope: Envelope) -> list[_Drawer]:
    """Return the UIDs of an object's owners, or the namespace of an object without owners."""
    owners: list[_Drawer] = [owner.uid for owner in envelope.owners]
    return owners or [(envelope.namespace,)]
