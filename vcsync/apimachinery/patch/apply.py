"""Server-side apply: merges the object of a manager into the live one unless that conflicts with other managers. Pure.

The rules are those of structured-merge-diff's `merge.Updater.Apply` and apimachinery's `util/managedfields`.
"""

from typing import Any

import msgspec

from vcsync.apimachinery import errors
from vcsync.apimachinery.message_size import Room, extended, left_out
from vcsync.apimachinery.patch import checks, fields, managed, merging, owners
from vcsync.apimachinery.patch.comparison import compare, field_set
from vcsync.apimachinery.patch.documents import mismatch, too_deep
from vcsync.apimachinery.patch.fields import Set
from vcsync.apimachinery.patch.managed import Tracking
from vcsync.apimachinery.patch.owners import Manager, Owned, Owners
from vcsync.apimachinery.patch.shapes import BadItem
from vcsync.apimachinery.strategy import Object

_BEFORE = "before-first-apply"
_KUBECTL = "kubectl"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS = 256 * 1024
_NO_OBJECT = "error decoding YAML: error unmarshaling JSON: while decoding JSON: "

Conflicts = dict[Manager, Set]


def apply(
    live: Object | None, applied: Any, *, manager: str, force: bool, now: str, tracking: Tracking
) -> Object:
    """Return the result of an apply, with its managedFields but without defaults for new parts.

    Args:
        live: The current object. None: it is created.
        applied: The applied object, as sent.
        manager: Name of the manager.
        force: Whether to take conflicting fields from other managers.
        now: RFC 3339 time in whole seconds.
        tracking: Facts about the resource.

    Raises:
        StatusError: 409 for conflicts with other managers (one cause per field), 400 if the applied object has another
            kind or contains managedFields, 500 if it does not fit the schema (as in kube-apiserver).
    """
    applied = {} if applied is None else applied
    if not isinstance(applied, dict):
        raise errors.bad_request(_NO_OBJECT + mismatch(applied, "map[string]interface {}"))
    _check_kind(applied, tracking)
    if _metadata(applied).get("managedFields") is not None:
        raise errors.bad_request("metadata.managedFields must be nil")
    if too_deep(applied):
        raise errors.bad_request("error decoding YAML: exceeded max depth")
    wrong = checks.findings(tracking.schema, applied)
    if wrong:
        raise _failed(f"failed to create typed patch object ({about(applied)}): {wrong}")
    try:
        return _Application(live, applied, manager, now, tracking).run(force)
    except RecursionError:
        raise errors.bad_request("error decoding YAML: exceeded max depth") from None
    except BadItem as bad:
        raise _failed(f"failed to create typed live object ({about(applied)}): {bad}") from None


def _check_kind(applied: Object, tracking: Tracking) -> None:
    sent = (applied.get("apiVersion"), applied.get("kind"))
    if sent != (tracking.api_version, tracking.kind):
        raise errors.bad_request(f"invalid object type: {_kind(applied)}")


def _kind(obj: Object) -> str:
    version = str(obj.get("apiVersion") or "")
    return f"{version if '/' in version else '/' + version}, Kind={obj.get('kind') or ''}"


def _metadata(obj: Object) -> Object:
    """Return the metadata of an object that may not fit its schema."""
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def about(obj: Object) -> str:
    """Return the name of an object as in messages about apply."""
    metadata = _metadata(obj)
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; {_kind(obj)}"


def _failed(text: str) -> errors.StatusError:
    return errors.StatusError(500, "", text)


class _Application:
    """One run of `apply`, with its arguments."""

    def __init__(
        self, live: Object | None, applied: Object, manager: str, now: str, tracking: Tracking
    ) -> None:
        self.tracking = tracking
        self.live = live if live is not None else _empty(tracking)
        self.applied = applied
        self.name = manager
        self.who = owners.manager(manager, owners.APPLY, tracking.api_version, tracking.subresource)
        self.now = now

    def run(self, force: bool) -> Object:
        before = owners.read(self.live.get("metadata", {}).get("managedFields") or [])
        if not before:
            before = self._adopted()
        before = managed.fitted(before, self.live, self.tracking)
        last = before.get(self.who)
        own = self.tracking.reset.kept(field_set(self.tracking.schema, self.applied))
        wanted = {**before, self.who: Owned(own, self.tracking.api_version, last.time if last else "")}
        new = merging.merge(self.tracking.schema, self.live, self.applied)
        if last is not None and self._drops_some(last, own):
            new = self._pruned(new, wanted, last)
        changes = managed.Changes(self.live, new, self.tracking)
        if not force:
            self._check_conflicts(changes, wanted)
        return self._finished(new, changes.without_changed(wanted, self.who))

    def _adopted(self) -> Owners:
        """Return a separate manager as the owner of all fields of an object without managedFields."""
        writer = owners.manager(_BEFORE, owners.UPDATE, self.tracking.api_version, self.tracking.subresource)
        empty = _empty(self.tracking)
        return managed.updated(empty, self.live, {}, self.tracking, writer=writer, now=self.now)

    def _drops_some(self, last: Owned, own: Set) -> bool:
        """Return whether the manager no longer applies some fields that it has applied earlier."""
        if last.api_version != self.tracking.api_version:
            return bool(last.fields)
        return bool(fields.difference(last.fields, own))

    def _pruned(self, merged: Object, wanted: Owners, last: Owned) -> Object:
        """Remove the fields that only this manager owns and no longer applies."""
        converted = self.tracking.at(merged, last.api_version)
        if converted is None:
            return merged
        obj, schema = converted
        mine = merging.with_named(schema, last.fields)
        pruned = merging.remove(schema, obj, mine)
        for version, owned in self._owned_by_version(last.api_version, wanted).items():
            pruned = self._with_owned(obj, last.api_version, pruned, version, owned)
        missing = fields.difference(
            merging.with_named(schema, field_set(schema, obj)),
            merging.with_named(schema, field_set(schema, pruned)),
        )
        left = merging.remove(schema, obj, fields.intersection(missing, mine))
        back = self._moved(left, last.api_version, self.tracking.api_version)
        return merged if back is None else back

    def _owned_by_version(self, first: str, wanted: Owners) -> dict[str, Set]:
        """Return the owned fields by the version in which they are compared."""
        found: dict[str, list[Set]] = {self.tracking.comparable_version(first) or first: []}
        for each in wanted.values():
            version = self.tracking.comparable_version(each.api_version)
            if version is not None:
                found.setdefault(version, []).append(each.fields)
        return {version: fields.union_all(each) for version, each in found.items()}

    def _with_owned(self, merged: Object, at: str, pruned: Object, version: str, owned: Set) -> Object:
        """Return the pruned object with the fields restored that managers own in a version."""
        whole, part = self._moved(merged, at, version), self._moved(pruned, at, version)
        converted = self.tracking.at(self.live, version)
        if whole is None or part is None or converted is None:
            return pruned
        schema = converted[1]
        stays = fields.union(
            merging.with_named(schema, field_set(schema, part)), merging.with_named(schema, owned)
        )
        gone = fields.difference(merging.with_named(schema, field_set(schema, whole)), stays)
        back = self._moved(merging.remove(schema, whole, gone), version, at)
        return pruned if back is None else back

    def _moved(self, obj: Object, source: str, target: str) -> Object | None:
        if source == target:
            return obj
        found = (
            self.tracking.at(obj, target)
            if self.tracking.convert is None
            else self.tracking.convert(obj, target)
        )
        return found[0] if found else None

    def _check_conflicts(self, changes: managed.Changes, wanted: Owners) -> None:
        conflicts = changes.conflicts({who: owned for who, owned in wanted.items() if who != self.who})
        allowed = self._last_applied_fields() if conflicts and self.name == _KUBECTL else None
        if allowed is not None:
            conflicts = {
                who: left for who, own in conflicts.items() if (left := fields.difference(own, allowed))
            }
        if conflicts:
            raise _conflict(conflicts)

    def _last_applied_fields(self) -> Set | None:
        """Return the fields that client-side apply has set and that are unchanged; kubectl may take them over."""
        text = _last_applied(self.live)
        schema = self.tracking.schema
        try:
            before = msgspec.json.decode(text or "")
            if before.get("apiVersion") != self.tracking.api_version or checks.findings(schema, before):
                return None
            own, changes = field_set(schema, before), compare(schema, before, self.live)
        except (msgspec.DecodeError, AttributeError, BadItem, RecursionError):
            return None
        for part in changes:
            own = fields.difference(own, part)
        return own

    def _finished(self, new: Object, after: Owners) -> Object:
        own = after[self.who]
        kept = managed.stripped(own.fields)
        time = own.time if managed.tracked(new) == managed.tracked(self.live) else self.now
        if kept:
            after[self.who] = Owned(fields.ordered(kept), own.api_version, time)
        else:
            del after[self.who]
        metadata = dict(new.get("metadata") or {})
        entries = owners.written(after)
        metadata.pop("managedFields", None)
        if entries:
            metadata["managedFields"] = entries
        if self.name == _KUBECTL and _last_applied(new):
            metadata["annotations"] = _with_last_applied(metadata["annotations"], self.applied)
        return {**new, "metadata": metadata}


def _empty(tracking: Tracking) -> Object:
    return {"apiVersion": tracking.api_version, "kind": tracking.kind, **(tracking.empty or {})}


def _last_applied(obj: Object) -> str | None:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    found = annotations.get(_LAST_APPLIED)
    return found if isinstance(found, str) and found else None


def _with_last_applied(annotations: dict[str, Any], applied: Object) -> dict[str, Any]:
    """Record the applied object in its annotation, if there is room, so that client-side apply continues to work."""
    metadata = dict(applied.get("metadata") or {})
    own = {key: each for key, each in (metadata.get("annotations") or {}).items() if key != _LAST_APPLIED}
    metadata.pop("annotations", None)
    if own:
        metadata["annotations"] = own
    text = msgspec.json.encode({**applied, "metadata": metadata}, order="sorted").decode() + "\n"
    changed = {**annotations, _LAST_APPLIED: text}
    if sum(len(key.encode()) + len(str(each).encode()) for key, each in changed.items()) > _MAX_ANNOTATIONS:
        del changed[_LAST_APPLIED]
    return changed


def _conflict(conflicts: Conflicts) -> errors.StatusError:
    found = ((who, path) for who in sorted(conflicts) for path in fields.paths(conflicts[who]))
    causes: list[errors.Cause] = []
    lines: dict[str, list[str]] = {}
    room, left = Room(), 0
    for who, path in found:
        told, place = f"conflict with {who}", extended("", fields.shown(path))
        if not room.holds(told, place, place):
            left = 1 + sum(1 for _ in found)
            break
        causes.append(errors.Cause("FieldManagerConflict", told, place))
        lines.setdefault(f"conflicts with {who}:", []).append(f"- {place}")
    number = len(causes) + left
    if number == 1:
        message = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        rest = [left_out(left)] if left else []
        causes += (errors.Cause("FieldManagerConflict", each) for each in rest)
        listed = [line for title, places in lines.items() for line in (title, *places)]
        message = f"Apply failed with {number} conflicts: " + "\n".join([*listed, *rest])
    return errors.StatusError(409, "Conflict", message, causes=causes, empty_details=True)
