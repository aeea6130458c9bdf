"""ControllerRevisions: the numbered Pod templates of a controller's object. Pure.

Behaviour: Kubernetes' `pkg/controller/history`.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.controllers.framework import ownership
from vcsync.controllers.framework.mirror import namespace_of
from vcsync.controllers.framework.plan import Action, Create, Delete, Failure, Patch
from vcsync.kube.errors import AlreadyExists
from vcsync.kube.resources import CONTROLLER_REVISIONS, Resource
from vcsync.objects.envelope import Envelope, decode

HASH_LABEL = "controller.kubernetes.io/hash"
LONGEST_PREFIX = 223
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_REPLACED = {"$patch": "replace"}

Template = dict[str, Any]


class _Spec(Struct, frozen=True):
    template: Template = {}


class _Data(Struct, frozen=True):
    spec: _Spec = _Spec()


class _Rest(Struct):
    data: _Data = _Data()
    revision: int = 0


class Revision(Struct, frozen=True):
    """One ControllerRevision. `template`: the Pod template that it holds."""

    name: str
    number: int
    template: Template
    envelope: Envelope | None


class History(Struct, frozen=True):
    """All revisions of an object.

    Attributes:
        kept: existing revisions, the oldest first.
        update: the revision of the current template.
        actions: actions that make `update` the youngest revision.
    """

    kept: Sequence[Revision]
    update: Revision
    actions: Sequence[Action]

    def named(self, name: str) -> Revision:
        """Return a revision by name, or the revision of the current template if the name does not exist."""
        return next((each for each in self.kept if each.name == name), self.update)


def read_revision(envelope: Envelope) -> Revision:
    """Read a ControllerRevision."""
    rest = decode(envelope.rest, _Rest)
    return Revision(envelope.name, rest.revision, _plain(rest.data.spec.template), envelope)


def history(  # noqa: PLR0917 - one history
    resource: Resource,
    owner: Envelope,
    template: Template,
    envelopes: Iterable[Envelope],
    collisions: int,
    label: str = HASH_LABEL,
) -> History:
    """Return an object's revisions, including one of its current template.

    Args:
        resource: resource of the owner.
        owner: the owner.
        template: its current Pod template.
        envelopes: its ControllerRevisions.
        collisions: number of name collisions so far.
        label: label of a revision that holds the suffix of its name.
    """
    kept = sorted(
        (read_revision(each) for each in envelopes),
        key=lambda each: (each.number, each.envelope.creation_timestamp if each.envelope else "", each.name),
    )
    present = _plain(template)
    equal = [each for each in kept if each.template == present]
    following = kept[-1].number + 1 if kept else 1
    if not equal:
        made = Revision(_name(owner.name, present, collisions), following, present, None)
        return History(kept, made, [_creation(resource, owner, template, made, label)])
    again = equal[-1]
    if again is kept[-1] or again.template == kept[-1].template or again.envelope is None:
        return History(kept, kept[-1], [])
    patch = {"metadata": {"uid": again.envelope.uid}, "revision": following}
    action = Patch(CONTROLLER_REVISIONS, namespace_of(again.envelope), again.name, patch)
    return History(kept, again, [action])


def collided(failures: Iterable[Failure]) -> bool:
    """Return whether a revision could not be created because its name is taken."""
    return any(
        isinstance(each.action, Create)
        and each.action.resource is CONTROLLER_REVISIONS
        and isinstance(each.error, AlreadyExists)
        for each in failures
    )


def superfluous(kept: Iterable[Revision], live: Iterable[str], limit: int) -> list[Action]:
    """Return deletions of the oldest unused revisions beyond the history limit."""
    used = set(live)
    unused = [each.envelope for each in kept if each.name not in used and each.envelope is not None]
    beyond = unused[: max(len(unused) - limit, 0)]
    return [Delete(CONTROLLER_REVISIONS, namespace_of(each), each.name, each.uid) for each in beyond]


def _plain(template: Template) -> Template:
    """Return a template without fields that only some serializers write."""
    metadata = {name: value for name, value in (template.get("metadata") or {}).items() if value}
    whole = {name: value for name, value in template.items() if name != "$patch"}
    return {**whole, "metadata": metadata}


def _hash(template: Template, collisions: int) -> str:
    canonical = msgspec.json.encode(template, order="sorted")
    digest = hashlib.sha256(canonical + str(collisions).encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:10])


def _in_order(data: dict[str, Any]) -> dict[str, Any]:
    """Return the same with sorted keys, as Go writes them: some clients compare it byte by byte."""
    ordered: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(data, order="sorted"))
    return ordered


def _name(owner: str, template: Template, collisions: int) -> str:
    return f"{owner[:LONGEST_PREFIX]}-{_hash(template, collisions)}"


def _creation(resource: Resource, owner: Envelope, template: Template, made: Revision, label: str) -> Create:
    labels = (template.get("metadata") or {}).get("labels") or {}
    body = {
        "metadata": {
            "name": made.name,
            "labels": {**labels, label: made.name.rpartition("-")[2]},
            "annotations": dict(owner.annotations),
            "ownerReferences": [ownership.reference(resource, owner)],
        },
        "data": _in_order({"spec": {"template": {**template, **_REPLACED}}}),
        "revision": made.number,
    }
    return Create(CONTROLLER_REVISIONS, namespace_of(owner), body)
