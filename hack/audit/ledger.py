"""Rules about the ledger: it agrees with the quotas, and its mirror in the tenant and the super namespaces with it."""

from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction

from hack.audit import keys
from hack.audit.convert import (
    amount,
    amounts,
    annotations_going_down,
    going_down,
    metadata_differences,
    own_annotations,
    own_labels,
)
from hack.audit.findings import Difference, Finding
from hack.audit.world import (
    Json,
    Placement,
    Tenant,
    World,
    annotations,
    deleting,
    labels,
    parse_json,
    place,
    super_namespace,
    uid,
)

DIMENSIONS = ("cpu", "memory")
SLICED = (*DIMENSIONS, "pods")


# --- Ledger --------------------------------------------------------------------------------------------------


def ledger_lines(world: World) -> Iterator[Finding]:
    """Each line belongs to an existing namespace of its tenant and is consistent in itself."""
    keeping = {(line.tenant, line.namespace, super_id) for *_, super_id, line in world.keeping()}
    for line in world.placements.values():
        kept = {
            super_id
            for tenant, namespace, super_id in keeping
            if (tenant, namespace) == (line.tenant, line.namespace)
        }
        for rule, (field, expected, actual) in _line(world.tenants.get(line.tenant), line, kept):
            where = ("namespaceplacements", line.tenant, line.namespace)
            yield Finding(rule, line.tenant, "", *where, field, expected, actual)


def _line(tenant: Tenant | None, line: Placement, kept: Collection[str]) -> Iterator[tuple[str, Difference]]:
    metadata, spec = line.ledger["metadata"], line.ledger["spec"]
    if tenant is None:
        yield "foreign", ("metadata.namespace", "root namespace of a tenant", line.tenant)
        return
    namespace = tenant.cluster.get("namespaces", "", line.namespace)
    if deleting(line.ledger):
        yield "stuck", ("metadata.deletionTimestamp", None, metadata["deletionTimestamp"])
        return
    if namespace is None:
        yield "foreign", ("metadata.name", "a namespace of the tenant", line.namespace)
        return
    vc_namespace, vc_name = place(tenant.record)
    wanted = {
        "tenant": tenant.key,
        "namespace": line.namespace,
        "namespaceUID": uid(namespace),
        "virtualCluster": {"namespace": vc_namespace, "name": vc_name, "uid": uid(tenant.record)},
    }
    for field, expected in wanted.items():
        if spec.get(field) != expected:
            yield "ledger", (f"spec.{field}", expected, spec.get(field))
    dealt = sum(line.slices.values()) + (line.ledger.get("status") or {}).get("waiting", 0)
    if dealt != spec.get("slices", 0):
        yield "ledger", ("status.placements+waiting", spec.get("slices", 0), dealt)
    held = sorted(name for name in metadata.get("finalizers") or () if name.startswith(keys.DRAIN_FINALIZER))
    needed = sorted(keys.DRAIN_FINALIZER + super_id for super_id in {*line.slices, *kept})
    if held != needed:
        yield "ledger", ("metadata.finalizers", needed, held)


def ledger_quotas(world: World) -> Iterator[Finding]:
    """A namespace has as many slices as its ResourceQuotas need, and none without a ResourceQuota."""
    for tenant in world.tenants.values():
        for namespace in tenant.cluster.all("namespaces"):
            name = place(namespace)[1]
            line = world.placement(tenant.key, name)
            if deleting(namespace) or (line and deleting(line.ledger)):
                continue
            quota = _quota(tenant, name)
            if line is None:
                if any(quota.values()):
                    yield _of_namespace("missing", tenant, name, ("NamespacePlacement", "one", None))
                continue
            size = _slice_size(namespace, amounts(line.size))
            wanted = int(max((-(-quota[name] // size[name]) for name in quota), default=0))
            found = line.ledger["spec"].get("slices", 0)
            if found != wanted:
                yield _of_namespace("ledger", tenant, name, ("spec.slices", wanted, found))


def _of_namespace(rule: str, tenant: Tenant, name: str, difference: Difference) -> Finding:
    return Finding(rule, tenant.key, "", "namespaces", "", name, *difference)


def _quota(tenant: Tenant, namespace: str) -> dict[str, Fraction]:
    """Return the lowest limits of cpu and memory of the namespace's ResourceQuotas without scopes, else the default."""
    bounds: dict[str, Fraction] = {}
    for quota in tenant.cluster.within("resourcequotas", namespace):
        spec = quota.get("spec") or {}
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue
        for dimension in DIMENSIONS:
            for key in (dimension, f"requests.{dimension}", f"limits.{dimension}"):
                if key in (hard := spec.get("hard") or {}):
                    bound = amount(hard[key])
                    bounds[dimension] = min(bound, bounds.get(dimension, bound))
    default = amounts(None if namespace in keys.EMPTY_NAMESPACES else tenant.spec.get("defaultQuota"))
    return {name: default[name] for name in DIMENSIONS if name in default} | bounds


def _slice_size(namespace: Json, used: Mapping[str, Fraction]) -> Mapping[str, Fraction]:
    """Return the slice size of the tenant's annotation, else the deployment's default, which only the ledger has.

    Slices that would have less than a Pod are enlarged: the ledger's consist of a whole number of them.
    """
    said = parse_json(annotations(namespace).get(keys.SLICE))
    if not isinstance(said, dict):
        return used
    wanted = amounts(said)
    factors = {used.get(name, Fraction()) / wanted[name] for name in DIMENSIONS}
    enlarged = len(factors) == 1 and all(each >= 1 and each.denominator == 1 for each in factors)
    return used if enlarged else wanted


def _dealt(whole: int, line: Placement) -> dict[str, int]:
    """Distribute a number of objects over the super clusters of a namespace, one by one to the most slices for an object."""
    slices: dict[tuple[bool, str], int] = {
        (False, super_id): count for super_id, count in line.slices.items()
    }
    if waiting := (line.ledger.get("status") or {}).get("waiting", 0):
        slices[True, ""] = waiting
    found = {party: whole * count // sum(slices.values()) for party, count in slices.items()}
    for _ in range(whole - sum(found.values())):
        party = min(slices, key=lambda each: (Fraction(-slices[each], found[each] + 1), each))
        found[party] += 1
    return {super_id: count for (_, super_id), count in found.items()}


# --- Mirror --------------------------------------------------------------------------------------------------


def mirrors(world: World) -> Iterator[Finding]:
    """A tenant namespace's annotation and labels agree with the ledger."""
    for tenant in world.tenants.values():
        for namespace in tenant.cluster.all("namespaces"):
            if deleting(namespace):
                continue
            name = place(namespace)[1]
            line = world.placement(tenant.key, name)
            slices = dict(line.slices) if line else {}
            mirrored = parse_json(annotations(namespace).get(keys.PLACEMENTS))
            if (mirrored or {}) != slices:
                field = f"metadata.annotations[{keys.PLACEMENTS}]"
                yield _of_namespace("mirror", tenant, name, (field, slices, mirrored))
            wanted = {keys.PLACEMENT_LABEL + super_id: str(count) for super_id, count in slices.items()}
            actual = {
                key: text for key, text in labels(namespace).items() if key.startswith(keys.PLACEMENT_LABEL)
            }
            if actual != wanted:
                yield _of_namespace("mirror", tenant, name, ("metadata.labels", wanted, actual))


# --- Super namespaces ----------------------------------------------------------------------------------------


def super_namespaces(world: World) -> Iterator[Finding]:
    """A super namespace exists where the ledger has slices, and nowhere else."""
    for tenant, namespace, super_id, _, line in world.placed():
        name = super_namespace(tenant.key, line.namespace)
        found = world.supers[super_id].get("namespaces", "", name)
        if found is None:
            if not deleting(namespace):
                yield Finding("missing", tenant.key, super_id, "namespaces", "", name, "", name, None)
            continue
        for difference in _super_namespace(tenant, namespace, found, line):
            yield Finding("stale", tenant.key, super_id, "namespaces", "", name, *difference)
    yield from _other_namespaces(world)


def _super_namespace(tenant: Tenant, namespace: Json, found: Json, line: Placement) -> Iterator[Difference]:
    if deleting(found):
        yield "metadata.deletionTimestamp", None, found["metadata"]["deletionTimestamp"]
    wanted = going_down(labels(namespace), tenant) | own_labels(tenant) | {keys.CLUSTER: tenant.key}
    yield from metadata_differences(wanted, labels(found), tenant, "labels")
    actual = annotations(found)
    wanted = annotations_going_down(annotations(namespace), tenant, "namespaces")
    wanted |= own_annotations(uid(namespace), line.namespace, tenant) | {keys.VC_UID: uid(tenant.record)}
    yield from metadata_differences(wanted, actual, tenant, "annotations")
    for key, expected in ((keys.PLACEMENTS, dict(line.slices)), (keys.SLICE, dict(line.size))):
        if parse_json(actual.get(key)) != expected:
            yield f"metadata.annotations[{key}]", expected, parse_json(actual.get(key))


def _other_namespaces(world: World) -> Iterator[Finding]:
    wanted = {
        (super_id, super_namespace(line.tenant, line.namespace))
        for super_id, line in (
            *((super_id, line) for *_, super_id, _, line in world.placed()),
            *((super_id, line) for *_, super_id, line in world.keeping()),
        )
    }
    prefixes = tuple(f"{key}-" for key in world.tenants)
    for super_id, cluster in world.supers.items():
        for found in cluster.all("namespaces"):
            name = place(found)[1]
            ours = keys.CONTROLLED in labels(found) or keys.CLUSTER in annotations(found)
            if (super_id, name) not in wanted and (ours or (prefixes and name.startswith(prefixes))):
                owner = annotations(found).get(keys.CLUSTER, "")
                yield Finding("foreign", owner, super_id, "namespaces", "", name, "", None, uid(found))


def super_quotas(world: World) -> Iterator[Finding]:
    """A super namespace has exactly one ResourceQuota, whose limits equal its slices."""
    for tenant, _, super_id, count, line in world.placed():
        name = super_namespace(tenant.key, line.namespace)
        cluster = world.supers[super_id]
        if cluster.get("namespaces", "", name) is None:
            continue
        for other in cluster.within("resourcequotas", name):
            if place(other)[1] != keys.QUOTA:
                yield Finding(
                    "foreign", tenant.key, super_id, "resourcequotas", *place(other), "", None, uid(other)
                )
        quota = cluster.get("resourcequotas", name, keys.QUOTA)
        if quota is None:
            yield Finding(
                "missing", tenant.key, super_id, "resourcequotas", name, keys.QUOTA, "", keys.QUOTA, None
            )
            continue
        slices = sum(line.slices.values()) + (line.ledger.get("status") or {}).get("waiting", 0)
        bounds = {
            resource: amount(text) * count
            if resource in SLICED
            else Fraction(_dealt(int(amount(text) * slices), line)[super_id])
            for resource, text in line.size.items()
        }
        wanted = {
            f"requests.{resource}" if resource in DIMENSIONS else resource: bound
            for resource, bound in bounds.items()
            if resource not in (keys.OBJECT_BYTES, keys.DEVICES)
        }
        hard = (quota.get("spec") or {}).get("hard") or {}
        # The classes of devices that claims have named, each with the limit of all.
        if keys.DEVICES in bounds:
            classes = [each for each in hard if each.endswith(keys.DEVICES_OF_CLASS)]
            wanted |= dict.fromkeys(classes, bounds[keys.DEVICES])
        if amounts(hard) != wanted:
            expected = {resource: str(bound) for resource, bound in wanted.items()}
            yield Finding(
                "stale", tenant.key, super_id, "resourcequotas", name, keys.QUOTA, "spec.hard", expected, hard
            )
