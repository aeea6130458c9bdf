"""Rules of isolation: no tenant sees anything of another one, or the names of its own objects in super clusters."""

import json
import re
from collections.abc import Iterator

from hack.audit import keys
from hack.audit.findings import Finding
from hack.audit.world import Json, Tenant, World, annotations, place, super_namespace, uid

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def visible(world: World) -> Iterator[Finding]:
    """No object of a tenant, in the tenant or in its super namespaces, contains a text of another tenant."""
    owner_of = {
        uid(found): tenant.key
        for tenant in world.tenants.values()
        for _, found in tenant.cluster.everything()
    }
    owner_of |= {uid(tenant.record): tenant.key for tenant in world.tenants.values()}
    marks = {tenant.key: marks_of(world, tenant) for tenant in world.tenants.values()}
    for tenant in world.tenants.values():
        for kind, found in tenant.cluster.everything():
            for text in _foreign(found, tenant.key, owner_of, marks):
                yield Finding("visible", tenant.key, "", kind, *place(found), "", None, text)
    namespaces = {
        super_namespace(line.tenant, line.namespace): line.tenant for line in world.placements.values()
    }
    for super_id, cluster in world.supers.items():
        for kind, found in cluster.everything():
            namespace, name = place(found)
            owner = namespaces.get(name if kind == "namespaces" else namespace)
            if owner is None or kind == "nodes":
                continue
            for text in _foreign(found, owner, owner_of, marks):
                yield Finding("visible", owner, super_id, kind, namespace, name, "", None, text)


def marks_of(world: World, tenant: Tenant) -> tuple[str, ...]:
    """Return texts that identify an object as this tenant's."""
    return (tenant.key, *world.markers.get(tenant.key, ()))


def _foreign(
    found: Json, owner: str, owner_of: dict[str, str], marks: dict[str, tuple[str, ...]]
) -> Iterator[str]:
    text = json.dumps(found)
    for word in set(_UUID.findall(text)):
        if owner_of.get(word, owner) != owner:
            yield f"UID {word} of {owner_of[word]}"
    for other, texts in marks.items():
        if other == owner:
            continue
        for mark in texts:
            if mark in text:
                yield f"{mark!r} of {other}"


_WRITTEN_UP = ("pods", "services", "nodes", "events", "namespaces")
_EXCERPT = 100
"""Characters before and after a revealed cluster key that a finding shows."""


def revealed(world: World) -> Iterator[Finding]:
    """No object that the syncer writes to a tenant contains the tenant's cluster key."""
    for tenant in world.tenants.values():
        for kind in _WRITTEN_UP:
            for found in tenant.cluster.all(kind):
                before, key, after = json.dumps(found).partition(tenant.key)
                if key:
                    excerpt = f"{before[-_EXCERPT:]}{key}{after[:_EXCERPT]}"
                    yield Finding("revealed", tenant.key, "", kind, *place(found), "", None, excerpt)


def claimed(world: World) -> Iterator[Finding]:
    """A super object names the tenant of its super namespace as its owner."""
    for tenant, _, super_id, _, line in world.placed():
        there = super_namespace(tenant.key, line.namespace)
        for kind, found in world.supers[super_id].everything():
            owner = annotations(found).get(keys.CLUSTER)
            if place(found)[0] == there and owner not in (None, tenant.key):
                yield Finding(
                    "visible", tenant.key, super_id, kind, *place(found), keys.CLUSTER, tenant.key, owner
                )
