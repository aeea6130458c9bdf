"""Rules about CustomResourceDefinitions that super clusters publish: every tenant has them, and says who publishes them."""

from collections.abc import Iterator
from typing import Any

from hack.audit import keys
from hack.audit.findings import Finding
from hack.audit.world import Cluster, Json, World, annotations, deleting, labels, place

DEFINITIONS = "customresourcedefinitions"
_COMPARED = ("group", "names", "scope", "versions")


def published_definitions(world: World) -> Iterator[Finding]:
    """A tenant has the definition of the first super cluster that publishes the name, unless it has one of its own."""
    chosen = _chosen(world)
    for tenant in world.tenants.values():
        for name, by in chosen.items():
            about = (tenant.key, next(iter(by)), DEFINITIONS, "", name)
            found = tenant.cluster.get(DEFINITIONS, "", name)
            if found is None:
                yield Finding("missing", *about)
            elif not deleting(found) and _is_ours(found):
                yield from (Finding("stale", *about, *each) for each in _differences(found, by))
        for found in tenant.cluster.all(DEFINITIONS):
            name = place(found)[1]
            if name not in chosen and _is_ours(found) and labels(found).get(keys.SUPER_PUBLIC) is not None:
                label = labels(found)[keys.SUPER_PUBLIC]
                yield Finding("stale", tenant.key, "", DEFINITIONS, "", name, keys.SUPER_PUBLIC, None, label)


def _chosen(world: World) -> dict[str, dict[str, Any]]:
    """Return name -> id of each super cluster that publishes the definition of the first one by id -> what tenants get."""
    found: dict[str, dict[str, Any]] = {}
    for super_id, cluster in sorted(world.supers.items()):
        for name, content in _published(cluster):
            same = found.setdefault(name, {super_id: content})
            if content in same.values():
                same[super_id] = content
    return found


def _published(cluster: Cluster) -> Iterator[tuple[str, Json]]:
    for found in cluster.all(DEFINITIONS):
        conversion = found["spec"].get("conversion") or {}
        established = any(
            each.get("type") == "Established" and each.get("status") == "True"
            for each in (found.get("status") or {}).get("conditions") or ()
        )
        public = labels(found).get(keys.SUPER_PUBLIC) == "true" and established and not deleting(found)
        if public and conversion.get("strategy", "None") == "None":
            yield place(found)[1], _content(found)


def _is_ours(found: Json) -> bool:
    """Return whether a tenant's definition has the spec that vcsync wrote: the API server counts changes of it."""
    digest, _, generation = annotations(found).get(keys.DEFINITION, "").partition(".")
    return bool(digest) and generation == str(found["metadata"].get("generation"))


def _differences(found: Json, by: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    content, wanted = _content(found), next(iter(by.values()))
    for field in _COMPARED:
        if content[field] != wanted[field]:
            yield f"spec.{field}", wanted[field], content[field]
    if labels(found).get(keys.SUPER_PUBLIC) != "true":
        yield keys.SUPER_PUBLIC, "true", labels(found).get(keys.SUPER_PUBLIC)
    publishers = annotations(found).get(keys.PUBLISHED_BY)
    if publishers != ",".join(by):
        yield keys.PUBLISHED_BY, ",".join(by), publishers


def _content(found: Json) -> Json:
    return {field: found["spec"].get(field) for field in _COMPARED}
