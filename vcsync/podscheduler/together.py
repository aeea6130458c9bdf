"""The Services of one tenant that keep their Pods together, and where these Pods are. Pure.

Which Services select a Pod is noted with the Pod. Labels of Pods are not kept: most tenants have no such Service.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import msgspec
from msgspec import Struct

from vcsync.api.names import KEEP_TOGETHER, TRUE
from vcsync.kube.cache import Change
from vcsync.objects.envelope import Envelope, decode
from vcsync.podscheduler.pods import Key
from vcsync.scheduling.snapshot import SuperView
from vcsync.scheduling.together import Kept, home

MOST_SERVICES = 100
"""Services of a namespace that keep their Pods together, the first by name. Each Pod is compared with all of them."""
MOST_LABELS = 32
"""Labels of a selector, so that the comparison with a Pod takes little time."""

_FALSE = "false"


class _Spec(Struct, gc=False):
    selector: dict[str, str] | None = None
    type: str = ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, str]).decode


def slim_service(service: Envelope) -> Envelope:
    """Return a Service's envelope for the cache: the label that asks for it, and the selector as `spec`."""
    spec = decode(service.spec, _Spec)
    selector = {} if spec.type == "ExternalName" else spec.selector or {}
    return Envelope(
        service.name,
        service.namespace,
        service.uid,
        service.resource_version,
        labels={key: value for key, value in service.labels.items() if key == KEEP_TOGETHER},
        spec=_encode(selector),
    )


class KeptServices:
    """The Services of one tenant that keep their Pods together, and the number of Pods of each by super cluster."""

    def __init__(self) -> None:
        self._selectors: dict[str, dict[str, dict[str, str]]] = {}  # namespace -> Service -> selector
        self._names: dict[str, list[str]] = {}  # namespace -> names of the same Services, in order
        self._taken: dict[str, dict[str, dict[str, str]]] = {}  # namespace -> the first of them -> selector
        self._pods: dict[Key, Counter[str]] = {}  # Service -> super cluster -> Pods
        self._noted: dict[Key, tuple[str, tuple[str, ...]]] = {}  # Pod -> its super cluster and Services

    def observe(self, change: Change) -> tuple[bool, str]:
        """Take a change of a Service (in the form of `slim_service`).

        Returns:
            Whether Pods of its namespace may have other Services now, and what is wrong with the Service; empty if nothing.
        """
        subject = change.new or change.old
        if subject is None:
            return False, ""
        namespace, name = subject.key
        selector = _decode(change.new.spec) if change.new is not None else {}
        value = change.new.labels.get(KEEP_TOGETHER, _FALSE) if change.new is not None else _FALSE
        changed = self._keep(
            namespace, name, selector if value == TRUE and len(selector) <= MOST_LABELS else {}
        )
        return changed, self._problem(name, value, selector, self._taken.get(namespace, {}))

    def _keep(self, namespace: str, name: str, selector: dict[str, str]) -> bool:
        """Take the selector of a Service; empty if it does not keep its Pods together. Return whether any Pod may notice."""
        known, ordered = self._selectors.setdefault(namespace, {}), self._names.setdefault(namespace, [])
        place = bisect_left(ordered, name)
        before = known.get(name, {})
        if selector and not before:
            insort(ordered, name)
        if selector:
            known[name] = selector
        elif before:
            del known[name], ordered[place]
        if not known:
            del self._selectors[namespace], self._names[namespace]
            return self._taken.pop(namespace, None) is not None
        if selector == before or place >= MOST_SERVICES:
            return False
        self._taken[namespace] = {each: known[each] for each in ordered[:MOST_SERVICES]}
        return True

    @staticmethod
    def _problem(name: str, value: str, selector: Mapping[str, str], taken: Collection[str]) -> str:
        label = f"label {KEEP_TOGETHER}"
        if value not in (TRUE, _FALSE):
            return f'{label}: {value!r} is not valid; write "true" or remove the label'
        if value == _FALSE:
            return ""
        if not selector:
            return f"{label}: the Service selects no Pods; give it a selector or remove the label"
        if len(selector) > MOST_LABELS:
            return f"{label}: the selector has more than {MOST_LABELS} labels; remove some, or the label"
        if name not in taken:
            return f"{label}: only {MOST_SERVICES} Services of a namespace may have it; remove it from others"
        return ""

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the names of the Services that select a Pod."""
        return tuple(
            name
            for name, selector in self._taken.get(namespace, {}).items()
            if all(labels.get(key) == value for key, value in selector.items())
        )

    def note(self, pod: Key, super_id: str, services: tuple[str, ...]) -> bool:
        """Note the super cluster of a Pod, empty if it has none, and its Services. Return whether it left one of them."""
        before = self._noted.get(pod, ("", ()))
        now = (super_id, services) if super_id and services else ("", ())
        if now == before:
            return False
        self.count(pod[0], before[0], before[1], -1)
        self.count(pod[0], now[0], now[1], 1)
        if now[1]:
            self._noted[pod] = now
        else:
            del self._noted[pod]
        return bool(before[1])

    def count(self, namespace: str, super_id: str, services: tuple[str, ...], change: int) -> None:
        """Change the number of Pods of Services on a super cluster, for a Pod that is being created."""
        for name in services:
            pods = self._pods.setdefault((namespace, name), Counter())
            pods[super_id] += change
            if not pods[super_id]:
                del pods[super_id]
            if not pods:
                del self._pods[namespace, name]

    def kept(
        self,
        namespace: str,
        services: tuple[str, ...],
        granted: Collection[str],
        views: Mapping[str, SuperView],
        without: str = "",
    ) -> Iterator[Kept]:
        """Yield where the Services of a Pod keep their Pods.

        Args:
            namespace: their namespace.
            services: the Services.
            granted: super clusters with slices of the namespace.
            views: the pool.
            without: name of a Pod that does not count, since it is the one to be placed.
        """
        place, of = self._noted.get((namespace, without), ("", ()))
        for name in services:
            pods = dict(self._pods.get((namespace, name), {}))
            if name in of:
                pods[place] -= 1
            yield Kept(name, home(pods, granted, views))
