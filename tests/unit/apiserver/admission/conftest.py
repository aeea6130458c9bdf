"""Fixtures that call admission plug-ins with objects in memory."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from vcsync.apimachinery.strategy import Context, User
from vcsync.apiserver.admission.framework.plugin import Lookup
from vcsync.apiserver.request.audit_trail import Level, Trail
from vcsync.apiserver.request.caller import SYSTEM
from vcsync.apiserver.request.scope import Admission


@dataclass
class Things:
    """The objects of a tenant, by group, plural, namespace and name."""

    there: dict[tuple[str, str, str, str], dict[str, Any]] = field(default_factory=dict)

    def add(self, group, plural, name, namespace="", **content):
        metadata = {"name": name, **content.pop("metadata", {})}
        self.there[group, plural, namespace, name] = {"metadata": metadata, **content}

    async def get(self, tenant, group, plural, name, namespace=""):
        assert tenant in ("t", SYSTEM), "a plug-in reads what another tenant has"
        return self.there.get((group, plural, namespace, name))

    async def all(self, tenant, group, plural, namespace=""):
        assert tenant in ("t", SYSTEM), "a plug-in reads what another tenant has"
        return [each for key, each in sorted(self.there.items()) if key[:3] == (group, plural, namespace)]

    async def each(self, tenant, group, plural, namespace=""):
        for each in await self.all(tenant, group, plural, namespace):
            yield each


@dataclass
class Resource:
    group: str
    plural: str
    kind: str = ""


@dataclass
class Kind:
    resource: Resource


@dataclass
class Scope:
    kind: Kind
    namespace: str = "n"
    subresource: str = ""
    tenant: str = "t"
    caller: Any = None
    warnings: list[str] = field(default_factory=list)
    audit: Trail = field(default_factory=lambda: Trail(Level.METADATA))
    context: Context = field(default_factory=lambda: Context("t", User("jane"), "2026-01-01T00:00:00Z"))

    def warn(self, texts):
        self.warnings.extend(texts)


@pytest.fixture
def things() -> Things:
    return Things()


@pytest.fixture
def admit(things):
    """Call a plug-in for a write, and return the object after it."""

    async def call(plugin, new, *, of=("", "pods"), old=None, operation="", subresource="", scope=None):
        found = None if new is None else json.loads(json.dumps(new))
        scope = scope or Scope(Kind(Resource(*of)), subresource=subresource)
        operation = operation or ("CREATE" if old is None else "UPDATE")
        name = (found or old)["metadata"].get("name", "")
        await plugin(Admission(scope, operation, name, found, old, False), things)
        return found

    return call


@pytest.fixture
def scope():
    """Create the scope of a request, which collects its warnings."""

    def made(group, plural, subresource=""):
        return Scope(Kind(Resource(group, plural)), subresource=subresource)

    return made


__all__ = ["Kind", "Lookup", "Resource", "Scope", "Things"]
