"""The webhooks that a tenant has configured, read once for all its requests. Pure.

Source: `mergeMutatingWebhookConfigurations` of apiserver's `pkg/admission/configuration`: configurations in the order
of their names, the webhooks of each in theirs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from vcsync.controlplane.admission.matching import Rule, rule_of, selector_of
from vcsync.controlplane.rest.labelselectors import LabelSelector

Object = dict[str, Any]

MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
MOST_KINDS = 1_000
"""Kinds of which it is kept who may be concerned."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook.

    Attributes:
        configuration: name of the object that holds it.
        position: among all of its tenant and sort.
        uid: tells it from all others of its tenant and sort.
        equivalent: it hears of writes in other versions as well, converted to the one it names.
        conditions: `matchConditions`.
        client: `clientConfig`.
        reviews: versions of AdmissionReview that it takes.
        seconds: it must answer within.
        ignore: failures are ignored.
        dry_run: it may be called for dry runs.
        again: it wants to see the object anew when a later one changed it.
    """

    configuration: str
    name: str
    position: int
    uid: str
    rules: tuple[Rule, ...]
    equivalent: bool
    namespaces: LabelSelector
    objects: LabelSelector
    conditions: tuple[Object, ...]
    client: Mapping[str, Any]
    reviews: tuple[str, ...]
    seconds: int
    ignore: bool
    dry_run: bool
    again: bool


@dataclass(frozen=True, slots=True)
class Hooks:
    """All webhooks of one sort of a tenant, in the order in which they are called."""

    all: tuple[Hook, ...] = ()
    _concerned: dict[tuple[str, str], tuple[Hook, ...]] = field(default_factory=dict)

    def concerned(self, resources: Sequence[tuple[str, str]]) -> tuple[Hook, ...]:
        """Return those that may be about a resource.

        Args:
            resources: group and plural of it, first its own, then of the equivalent ones.
        """
        found = self._concerned.get(resources[0])
        if found is None:
            if len(self._concerned) >= MOST_KINDS:
                self._concerned.clear()
            found = self._concerned[resources[0]] = tuple(
                each
                for each in self.all
                if any(rule.may_match(*resource) for rule in each.rules for resource in resources)
            )
        return found


class _Named(msgspec.Struct):
    name: str


class _Stored(msgspec.Struct):
    """A configuration, of whose webhooks each is decoded when it is its turn."""

    metadata: _Named
    webhooks: list[msgspec.Raw] | None = None


_stored = msgspec.json.Decoder(_Stored).decode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def hooks_in(configurations: Iterable[bytes]) -> Iterator[Hook]:
    """Read stored configurations, in the order of their names, webhook by webhook.

    Raises:
        KeyError, TypeError, AttributeError, ValueError: one is not as the API lets them be.
    """
    position = 0
    for value in configurations:
        found = _stored(value)
        name, seen = found.metadata.name, dict[str, int]()
        for raw in found.webhooks or ():
            hook = _decode(raw)
            count = seen[hook["name"]] = seen.get(hook["name"], -1) + 1
            yield _hook(name, hook, position, f"{name}/{hook['name']}/{count}")
            position += 1


def _hook(configuration: str, hook: Mapping[str, Any], position: int, uid: str) -> Hook:
    return Hook(
        configuration,
        hook["name"],
        position,
        uid,
        tuple(rule_of(each) for each in hook.get("rules") or ()),
        hook.get("matchPolicy") != "Exact",
        selector_of(hook.get("namespaceSelector")),
        selector_of(hook.get("objectSelector")),
        tuple(hook.get("matchConditions") or ()),
        hook.get("clientConfig") or {},
        tuple(hook.get("admissionReviewVersions") or ()),
        hook.get("timeoutSeconds") or 10,
        hook.get("failurePolicy") == "Ignore",
        hook.get("sideEffects") in ("None", "NoneOnDryRun"),
        hook.get("reinvocationPolicy") == "IfNeeded",
    )
