"""Converts the objects of a write to the versions that webhooks and policies match, and their changes back.

Source: `VersionedAttributes` of apiserver's `pkg/admission`.
"""

from typing import Any

import msgspec

from vcsync.apimachinery import errors
from vcsync.apimachinery.copies import copied
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.schema.findings import DecodeError
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.wire import decode
from vcsync.apiserver.admission.framework.request import kind_of
from vcsync.apiserver.admission.framework.versions import Versions
from vcsync.apiserver.request import scale as scaling
from vcsync.apiserver.request.scope import Admission

LARGEST_OBJECT = 3 << 20
"""Bytes of an object after a webhook, at most. The limit is that of the body of a request."""


class VersionedObjects:
    """The new and the old object of a write, in all versions that webhooks and policies match."""

    def __init__(self, admission: Admission, versions: Versions, *, working: bool) -> None:
        """Create the converter.

        Args:
            admission: The write.
            versions: Converts objects.
            working: Whether its objects are working objects (validation) or served objects (mutation).
        """
        scope, resource = admission.scope, admission.scope.kind.resource
        self._asked = admission
        self._versions = versions
        self._working = working and admission.operation in ("CREATE", "UPDATE")
        self._kind = kind_of(resource, scope.subresource)
        own = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        self._scale = scope.subresource == "scale"
        self._part = self._kind != own and not self._scale
        # Mutating webhooks do not see a generated name: kube-apiserver generates it after them.
        made = admission.operation == "CREATE" and not (scope.name or working or self._part)
        self._generated = ((admission.new or {}).get("metadata") or {}).get("name") or "" if made else ""
        self._new: dict[str, Object] = {}
        self._old: dict[str, Object] = {}
        self._json: dict[str, tuple[msgspec.Raw, msgspec.Raw]] = {}

    async def new(self, to: Resource) -> Object | None:
        """Return the new object as a resource serves it, or None if the write is a deletion."""
        return await self._in(self._new, self._asked.new, to)

    async def old(self, to: Resource) -> Object | None:
        """Return the old object as a resource serves it, or None if the write is a creation."""
        return await self._in(self._old, self._asked.old, to)

    async def json(self, to: Resource) -> tuple[msgspec.Raw, msgspec.Raw]:
        """Return the new and the old object as JSON, `null` for a missing one. They are encoded once for all webhooks."""
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
        """Replace the new object by the changed one of a webhook or policy.

        Args:
            to: The resource in whose version the object was changed.
            patched: The changed object.

        Returns:
            Whether the object differs.

        Raises:
            StatusError: 500, it is not a valid object of its kind; 413, it is too large.
        """
        admission, before = self._asked, await self.new(to)
        if admission.new is None or before is None:
            raise AssertionError("there is nothing to change")
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata", {}), dict):
            raise errors.internal("json: cannot unmarshal into an object of the API")
        if (patched.get("kind"), patched.get("apiVersion")) != (before["kind"], before["apiVersion"]):
            raise _other_kind(before, patched)
        try:
            after = await self._fitted(to, patched)
        except (StatusError, DecodeError) as why:
            message = why.message if isinstance(why, StatusError) else str(why)
            raise errors.internal(message) from None
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
            return decode.typed(kind["group"], kind["version"], kind["kind"], patched)[0]
        target = scope.kind if to is scope.kind.resource else self._versions.kind(scope.tenant, to)
        if to.custom:
            target.decode(patched)
            return patched
        fitted = decode.typed(to.group, to.version, to.kind, patched)[0]
        return target.served(target.working(fitted))

    async def _put(self, to: Resource, after: Object) -> None:
        admission, scope = self._asked, self._asked.scope
        assert admission.new is not None  # noqa: S101 - `change` has checked it
        if self._scale:
            scaling.apply_scale(scope.kind, admission.new, after, scope.name)
            return
        if not self._part and to is not scope.kind.resource:
            other = self._versions.kind(scope.tenant, to)
            after = await self._versions.converted(scope.tenant, other, after, scope.kind.resource)
        if self._generated:
            after["metadata"].setdefault("name", self._generated)
        version = admission.new.get("metadata", {}).get("resourceVersion")
        admission.new.clear()
        admission.new.update(after)
        if version and admission.operation == "UPDATE":
            admission.new["metadata"]["resourceVersion"] = version


def _other_kind(before: Object, after: Object) -> StatusError:
    """Return the error of Go's conversion for an object of another kind."""
    version = str(after.get("apiVersion") or "").rpartition("/")[2]
    own = before["apiVersion"].rpartition("/")[0].partition(".")[0] or "core"
    made, wanted = f"{version}.{after.get('kind') or ''}", f"{own}.{before['kind']}"
    return StatusError(500, "", f"converting ({made}) to ({wanted}): unknown conversion")
