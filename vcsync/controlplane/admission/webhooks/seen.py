"""One write as webhooks see it, in each version that they ask for, and what they change put back into it."""

from typing import Any

import msgspec

from vcsync.controlplane import errors
from vcsync.controlplane.admission.request import kind_of
from vcsync.controlplane.admission.versions import Versions
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest import scaling
from vcsync.controlplane.rest.copies import copied
from vcsync.controlplane.rest.scope import Admission
from vcsync.controlplane.schema.findings import DecodeError
from vcsync.controlplane.wire import decode

LARGEST_OBJECT = 3 << 20
"""Bytes of an object as webhooks leave it: as many as a request may send."""


class Seen:
    """The objects of one write."""

    def __init__(self, asked: Admission, versions: Versions, *, working: bool) -> None:
        """Take the write.

        Args:
            asked: the write.
            versions: converts objects.
            working: whether objects are working ones (validation), not served ones (mutation).
        """
        scope, resource = asked.scope, asked.scope.kind.resource
        self._asked = asked
        self._versions = versions
        self._working = working and asked.operation in ("CREATE", "UPDATE")
        self._kind = kind_of(resource, scope.subresource)
        own = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        self._scale = scope.subresource == "scale"
        self._part = self._kind != own and not self._scale
        # A name that was generated already is not shown before the object is validated.
        made = asked.operation == "CREATE" and not (scope.name or working or self._part)
        self._generated = ((asked.new or {}).get("metadata") or {}).get("name") or "" if made else ""
        self._new: dict[str, Object] = {}
        self._old: dict[str, Object] = {}
        self._json: dict[str, tuple[msgspec.Raw, msgspec.Raw]] = {}

    async def new(self, to: Resource) -> Object | None:
        """Return the object that shall stand there, as a resource serves it; None: there is none."""
        return await self._in(self._new, self._asked.new, to)

    async def old(self, to: Resource) -> Object | None:
        """Return the object that stands there; None: there is none."""
        return await self._in(self._old, self._asked.old, to)

    async def json(self, to: Resource) -> tuple[msgspec.Raw, msgspec.Raw]:
        """Return both objects as JSON, written once for all webhooks; `null`: there is none."""
        found = self._json.get(to.api_version)
        if found is None:
            new, old = await self.new(to), await self.old(to)
            found = msgspec.Raw(msgspec.json.encode(new)), msgspec.Raw(msgspec.json.encode(old))
            self._json[to.api_version] = found
        return found

    async def _in(self, known: dict[str, Object], obj: Object | None, to: Resource) -> Object | None:
        if obj is None:
            return None
        found = known.get(to.api_version)
        if found is None:
            found = known[to.api_version] = await self._made(obj, to)
        return found

    async def _made(self, obj: Object, to: Resource) -> Object:
        kind = self._asked.scope.kind
        if self._part:
            group, version = self._kind["group"], self._kind["version"]
            api_version = f"{group}/{version}" if group else version
            return {"kind": self._kind["kind"], "apiVersion": api_version, **obj}
        served = kind.served(obj if self._working else kind.working(copied(obj)))
        if self._scale:
            return scaling.to_scale(kind, served)
        if self._generated:
            served["metadata"].pop("name", None)
        if to is kind.resource:
            return served
        return await self._versions.converted(self._asked.scope.tenant, kind, served, to)

    async def change(self, to: Resource, patched: Any) -> bool:
        """Put what a webhook made of the object, as a resource serves it, in its place.

        Returns:
            whether it is another one.

        Raises:
            StatusError: 500, it is no such object; 413, it is too large.
        """
        asked, before = self._asked, await self.new(to)
        if asked.new is None or before is None:
            raise AssertionError("there is nothing to change")
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata", {}), dict):
            raise errors.internal("json: cannot unmarshal into an object of the API")
        if (patched.get("kind"), patched.get("apiVersion")) != (before["kind"], before["apiVersion"]):
            raise _other_kind(before, patched)
        try:
            after = await self._fitted(to, patched)
        except (StatusError, DecodeError) as why:
            told = why.message if isinstance(why, StatusError) else str(why)
            raise errors.internal(told) from None
        if len(msgspec.json.encode(after)) > LARGEST_OBJECT:
            raise errors.too_large(f"limit is {LARGEST_OBJECT}")
        changed = after != before
        self._new.clear()
        self._json.clear()
        if changed:
            await self._put(to, after)
        return changed

    async def _fitted(self, to: Resource, patched: Object) -> Object:
        scope = self._asked.scope
        patched.setdefault("metadata", {})
        if self._part or self._scale:
            kind = self._kind
            return decode.conform(kind["group"], kind["version"], kind["kind"], patched)[0]
        target = scope.kind if to is scope.kind.resource else self._versions.kind(scope.tenant, to)
        if to.custom:
            target.decode(patched)
            return patched
        fitted = decode.conform(to.group, to.version, to.kind, patched)[0]
        return target.served(target.working(fitted))

    async def _put(self, to: Resource, after: Object) -> None:
        asked, scope = self._asked, self._asked.scope
        assert asked.new is not None  # noqa: S101 - `change` has looked
        if self._scale:
            scaling.apply_scale(scope.kind, asked.new, after, scope.name)
            return
        if not self._part and to is not scope.kind.resource:
            other = self._versions.kind(scope.tenant, to)
            after = await self._versions.converted(scope.tenant, other, after, scope.kind.resource)
        if self._generated:
            after["metadata"].setdefault("name", self._generated)
        version = asked.new.get("metadata", {}).get("resourceVersion")
        asked.new.clear()
        asked.new.update(after)
        if version and asked.operation == "UPDATE":
            asked.new["metadata"]["resourceVersion"] = version


def _other_kind(before: Object, after: Object) -> StatusError:
    """Refuse an object of another kind, as Go's conversion does."""
    version = str(after.get("apiVersion") or "").rpartition("/")[2]
    own = before["apiVersion"].rpartition("/")[0].partition(".")[0] or "core"
    made, wanted = f"{version}.{after.get('kind') or ''}", f"{own}.{before['kind']}"
    return StatusError(500, "", f"converting ({made}) to ({wanted}): unknown conversion")
