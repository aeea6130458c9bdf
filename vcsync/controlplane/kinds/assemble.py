"""Make one Behaviour of a kind's traits and rules. Pure."""

from collections.abc import Callable, Mapping
from functools import cache

from vcsync.controlplane.behaviour import Behaviour, Context, Object, StatusBehaviour
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds.api_services import API_SERVICES
from vcsync.controlplane.kinds.apps import APPS
from vcsync.controlplane.kinds.autoscaling import AUTOSCALING
from vcsync.controlplane.kinds.batch import BATCH
from vcsync.controlplane.kinds.certificates import CERTIFICATES
from vcsync.controlplane.kinds.claims import CLAIMS
from vcsync.controlplane.kinds.core import CORE
from vcsync.controlplane.kinds.devices import DEVICES
from vcsync.controlplane.kinds.discovery import DISCOVERY
from vcsync.controlplane.kinds.events import EVENTS
from vcsync.controlplane.kinds.flowcontrol import FLOW
from vcsync.controlplane.kinds.networking import NETWORKING
from vcsync.controlplane.kinds.nodes import NODES
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.pods import PODS
from vcsync.controlplane.kinds.policies import POLICIES
from vcsync.controlplane.kinds.quotas import QUOTAS
from vcsync.controlplane.kinds.rbac import RBAC
from vcsync.controlplane.kinds.services import SERVICES
from vcsync.controlplane.kinds.small import SMALL
from vcsync.controlplane.kinds.storage import STORAGE
from vcsync.controlplane.kinds.traits import TRAITS, Traits
from vcsync.controlplane.kinds.webhooks import WEBHOOKS
from vcsync.controlplane.schema import builtin, walk
from vcsync.controlplane.schema.node import Schema

PARTS: tuple[Mapping[tuple[str, str], Part], ...] = (
    API_SERVICES,
    APPS,
    AUTOSCALING,
    BATCH,
    CERTIFICATES,
    CLAIMS,
    CORE,
    DEVICES,
    DISCOVERY,
    EVENTS,
    FLOW,
    NETWORKING,
    NODES,
    PODS,
    POLICIES,
    QUOTAS,
    RBAC,
    SERVICES,
    SMALL,
    STORAGE,
    WEBHOOKS,
)
"""What the modules of kinds declare."""


_SHAPED_AS = {("events.k8s.io", "Event"): ("", "Event")}
"""Kinds that are kept in the form of another."""


def behaviours() -> dict[tuple[str, str], Behaviour]:
    """Return the behaviour of every built-in kind."""
    parts: dict[tuple[str, str], Part] = {}
    for each in PARTS:
        parts.update(each)
    return {key: _behaviour(key, traits, parts.get(key, Part())) for key, traits in TRAITS.items()}


def _behaviour(key: tuple[str, str], traits: Traits, part: Part) -> Behaviour:
    shape = _SHAPED_AS.get(key, key)
    return Behaviour(
        default=_default(shape, part),
        prepare_create=_prepare_create(shape, traits, part),
        prepare_update=_prepare_update(shape, traits, part),
        validate=part.validate,
        validate_update=part.validate_update or _validate_again(part),
        warnings=part.warnings,
        fields=part.fields,
        status=StatusBehaviour(part.status_prepare, part.status_validate) if traits.status else None,
        generation=traits.generation,
        name=part.name,
        unconditional_update=traits.unconditional_update,
        create_on_update=traits.create_on_update,
        grace_seconds=part.grace_seconds,
    )


def _default(key: tuple[str, str], part: Part) -> Callable[[Object], None]:
    def default(found: Object) -> None:
        _normalize(key, found)
        normal = walk.fingerprint(found)
        part.default(found)
        if normal is None or walk.fingerprint(found) != normal:
            _normalize(key, found)

    return default


def _prepare_create(key: tuple[str, str], traits: Traits, part: Part) -> Callable[[Object, Context], None]:
    def prepare(new: Object, context: Context) -> None:
        if traits.status and not traits.status_on_create:
            new["status"] = {}
        part.prepare_create(new, context)
        _normalize(key, new)

    return prepare


def _prepare_update(
    key: tuple[str, str], traits: Traits, part: Part
) -> Callable[[Object, Object, Context], None]:
    def prepare(new: Object, old: Object, context: Context) -> None:
        if traits.status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        part.prepare_update(new, old, context)
        _normalize(key, new)

    return prepare


def _normalize(key: tuple[str, str], found: Object) -> None:
    """Bring an object in its storage version into the form in which it is kept, in place."""
    schema = _schemas().get(key)
    if schema is not None:
        normal = walk.normalize(found, schema)
        found.clear()
        found.update(normal)


@cache
def _schemas() -> Mapping[tuple[str, str], Schema | None]:
    """Return the schemas of storage versions."""
    return {
        (each.storage_group, each.kind): builtin.schema(each.storage_group, each.storage, each.kind)
        for each in builtin.resources()
    }


def _validate_again(part: Part) -> Callable[[Object, Object], list[FieldError]]:
    def validate(new: Object, _: Object) -> list[FieldError]:
        return part.validate(new)

    return validate
