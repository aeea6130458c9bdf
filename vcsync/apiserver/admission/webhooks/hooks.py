"""Decodes the webhook configurations of a tenant, once for all its requests. Pure.

Source: `mergeMutatingWebhookConfigurations` of apiserver's `pkg/admission/configuration`: configurations are sorted by
name, and the webhooks of each keep their order.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from vcsync.apimachinery.selectors.label_selectors import LabelSelector
from vcsync.apiserver.admission.framework.matching import Rule, rule_of, selector_of

Object = dict[str, Any]

MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
MOST_KINDS = 1_000
"""Resources for which the relevant webhooks are cached."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook.

    Attributes:
        configuration: Name of the configuration that contains it.
        position: Position among all mutating or all validating webhooks of the tenant.
        uid: Identifies it among all mutating or all validating webhooks of the tenant.
        equivalent: Whether its rules also match equivalent resources, whose objects are converted for it (matchPolicy).
        conditions: `matchConditions`.
        client: `clientConfig`.
        reviews: Versions of AdmissionReview that it accepts.
        seconds: Time limit for a call.
        ignore: Whether failures are ignored (failurePolicy).
        dry_run: Whether it may be called for dry runs (sideEffects).
        again: Whether it is called again if the object changes after it (reinvocationPolicy).
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
    """All mutating or all validating webhooks of a tenant, in the order in which they are called."""

    all: tuple[Hook, ...] = ()
    _relevant: dict[tuple[str, str], tuple[Hook, ...]] = field(default_factory=dict)

    def relevant(self, resources: Sequence[tuple[str, str]]) -> tuple[Hook, ...]:
        """Return the webhooks whose rules can match a resource.

        Args:
            resources: Group and plural of the resource, then those of the equivalent resources.
        """
        found = self._relevant.get(resources[0])
        if found is None:
            if len(self._relevant) >= MOST_KINDS:
                self._relevant.clear()
            found = self._relevant[resources[0]] = tuple(
                each
                for each in self.all
                if any(rule.may_match(*resource) for rule in each.rules for resource in resources)
            )
        return found


class _Named(msgspec.Struct):
    name: str


class _Stored(msgspec.Struct):
    """A configuration whose webhooks are not decoded yet."""

    metadata: _Named
    webhooks: list[msgspec.Raw] | None = None


_stored = msgspec.json.Decoder(_Stored).decode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def hooks_in(configurations: Iterable[bytes]) -> Iterator[Hook]:
    """Decode the webhooks of stored configurations one by one, so that the caller can pause in between.

    Args:
        configurations: Stored objects, sorted by name.

    Raises:
        KeyError, TypeError, AttributeError, ValueError: A configuration is invalid.
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
