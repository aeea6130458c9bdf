"""Rules about Pods: each has one copy, in the super cluster of its label, and the tenant sees the copy's status."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from hack.audit import convert, keys
from hack.audit.convert import amount, amounts
from hack.audit.findings import Difference, Finding
from hack.audit.world import (
    Cluster,
    Json,
    Tenant,
    World,
    annotations,
    deleting,
    labels,
    place,
    super_namespace,
    uid,
)

ENDED = ("Succeeded", "Failed")


# --- One copy each -------------------------------------------------------------------------------------------


def pods(world: World) -> Iterator[Finding]:
    """A tenant's Pod has one copy, in the super cluster of its label, and the two agree."""
    for tenant in world.tenants.values():
        for pod in tenant.cluster.all("pods"):
            yield from _pod(world, tenant, pod)


def _pod(world: World, tenant: Tenant, pod: Json) -> Iterator[Finding]:
    namespace, name = place(pod)
    super_id = labels(pod).get(keys.SUPER_CLUSTER, "")
    line = world.placement(tenant.key, namespace)
    slices = line.slices if line else {}

    def wrong(rule: str, field: str, expected: Any, actual: Any) -> Finding:
        return Finding(rule, tenant.key, super_id, "pods", namespace, name, field, expected, actual)

    if not super_id:
        if _stuck(pod):
            yield wrong("stuck", "metadata.deletionTimestamp", None, pod["metadata"]["deletionTimestamp"])
        elif slices and not _may_be_unscheduled(pod):
            yield wrong("missing", f"metadata.labels[{keys.SUPER_CLUSTER}]", f"one of {sorted(slices)}", None)
        return
    if super_id not in world.supers or (super_id not in slices and not _ended(pod)):
        yield wrong("stale", f"metadata.labels[{keys.SUPER_CLUSTER}]", f"one of {sorted(slices)}", super_id)
        return
    cluster = world.supers[super_id]
    there = super_namespace(tenant.key, namespace)
    copy = cluster.get("pods", there, name)
    if copy is None:
        if _stuck(pod):
            yield wrong("stuck", "metadata.deletionTimestamp", None, pod["metadata"]["deletionTimestamp"])
        elif not deleting(pod) and not _may_be_absent(pod, tenant, cluster, there):
            yield wrong("missing", "", f"{there}/{name}", None)
        return
    for rule, (field, expected, actual) in _differences(tenant, pod, copy, super_id):
        yield wrong(rule, field, expected, actual)


def _stuck(pod: Json) -> bool:
    """Return whether a Pod without a copy should be gone: it is being deleted and has no finalizers but vcsync's own."""
    return deleting(pod) and {*(pod["metadata"].get("finalizers") or ())} <= {keys.COPY_FINALIZER}


def _phase(pod: Json) -> str:
    phase: str = (pod.get("status") or {}).get("phase", "")
    return phase


def _ended(pod: Json) -> bool:
    return _phase(pod) in ENDED


def _condition(pod: Json, kind: str) -> Json:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == kind), {})


def _may_be_unscheduled(pod: Json) -> bool:
    """Return whether a Pod may have no super cluster: it is gated, ended or being deleted, or its condition gives a reason."""
    condition = _condition(pod, "PodScheduled")
    waits = condition.get("status") == "False" and bool(condition.get("message"))
    return waits or _ended(pod) or deleting(pod) or bool(pod["spec"].get("schedulingGates"))


def _may_be_absent(pod: Json, tenant: Tenant, cluster: Cluster, there: str) -> bool:
    """Return whether the state of the clusters explains why a Pod has no copy."""
    if _ended(pod) or pod["spec"].get("schedulingGates") or labels(pod).get(keys.IGNORE_SYNC) == "true":
        return True
    if _condition(pod, "PodScheduled").get("reason") == "PolicyRefused":
        return True
    namespace = place(pod)[0]
    if any(tenant.cluster.get(kind, namespace, name) is None for kind, name in _needs(pod)):
        return True
    return not _fits(pod, cluster, there)


def _needs(pod: Json) -> Iterator[tuple[str, str]]:
    """Yield (kind, name) of the objects that must exist before a Pod can start."""
    spec = pod["spec"]
    yield "serviceaccounts", spec.get("serviceAccountName") or "default"
    for config_map, secret in (*_mounted(spec), *_in_environment(spec)):
        for kind, reference in (("configmaps", config_map), ("secrets", secret)):
            if reference and not reference.get("optional"):
                yield kind, reference.get("name") or reference.get("secretName") or ""


def _mounted(spec: Json) -> Iterator[tuple[Json | None, Json | None]]:
    for volume in spec.get("volumes") or ():
        yield volume.get("configMap"), volume.get("secret")
        for projection in (volume.get("projected") or {}).get("sources") or ():
            yield projection.get("configMap"), projection.get("secret")


def _in_environment(spec: Json) -> Iterator[tuple[Json | None, Json | None]]:
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        for source in container.get("envFrom") or ():
            yield source.get("configMapRef"), source.get("secretRef")
        for entry in container.get("env") or ():
            value = entry.get("valueFrom") or {}
            yield value.get("configMapKeyRef"), value.get("secretKeyRef")


def requests_of(pod: Json) -> dict[str, Fraction]:
    """Return a Pod's requests: the sum over its containers, or those of the largest init container if they are higher."""
    total: dict[str, Fraction] = {}
    for container in pod["spec"]["containers"]:
        for resource, quantity in _requests(container).items():
            total[resource] = total.get(resource, Fraction(0)) + quantity
    for container in pod["spec"].get("initContainers") or ():
        for resource, quantity in _requests(container).items():
            total[resource] = max(total.get(resource, Fraction(0)), quantity)
    return total


def _requests(container: Json) -> dict[str, Fraction]:
    resources = container.get("resources") or {}
    return amounts(resources.get("limits")) | amounts(resources.get("requests"))


def _fits(pod: Json, cluster: Cluster, there: str) -> bool:
    """Return whether the super namespace's slices have room for a Pod."""
    quota = cluster.get("resourcequotas", there, keys.QUOTA)
    status = (quota or {}).get("status") or {}
    hard, used = status.get("hard") or {}, amounts(status.get("used"))
    wanted = requests_of(pod)
    return all(
        used.get(key, Fraction(0)) + wanted.get(key.removeprefix("requests."), Fraction(0)) <= amount(bound)
        for key, bound in hard.items()
    )


# --- Field by field ------------------------------------------------------------------------------------------

_SAME_IN_SPEC = (
    "restartPolicy",
    "activeDeadlineSeconds",
    "terminationGracePeriodSeconds",
    "serviceAccountName",
    "hostname",
    "subdomain",
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "securityContext",
    "imagePullSecrets",
    "enableServiceLinks",
    "shareProcessNamespace",
    "readinessGates",
    "os",
)
_OTHERWISE_IN_CONTAINER = frozenset({"env", "envFrom", "resources"})
_SAME_IN_STATUS = (
    "phase",
    "reason",
    "message",
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "startTime",
    "qosClass",
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
)
_EMPTY: tuple[Any, ...] = (None, "", [], {})


def _differences(tenant: Tenant, pod: Json, copy: Json, super_id: str) -> Iterator[tuple[str, Difference]]:
    wanted = convert.wanted_labels(pod, tenant) | {keys.CLUSTER: tenant.key}
    for difference in convert.metadata_differences(wanted, labels(copy), tenant, "labels"):
        yield "stale", difference
    wanted = convert.wanted_annotations(pod, tenant, "pods")
    for difference in convert.metadata_differences(wanted, annotations(copy), tenant, "annotations"):
        yield "stale", difference
    for difference in _spec(pod["spec"], copy["spec"]):
        yield "stale", difference
    if deleting(copy) != deleting(pod) and not _ended(pod):
        field = "metadata.deletionTimestamp"
        yield (
            "stuck",
            (field, pod["metadata"].get("deletionTimestamp"), copy["metadata"].get("deletionTimestamp")),
        )
    node = copy["spec"].get("nodeName")
    bound = f"{node}.{super_id}" if node else None
    if pod["spec"].get("nodeName") != bound and (
        bound or _condition(pod, "PodScheduled").get("status") == "True"
    ):
        yield "status", ("spec.nodeName", bound, pod["spec"].get("nodeName"))
    for difference in _status(pod, copy):
        yield "status", difference


def _spec(wanted: Json, actual: Json) -> Iterator[Difference]:
    for field in _SAME_IN_SPEC:
        if (wanted.get(field) or None) != (actual.get(field) or None):
            yield f"spec.{field}", wanted.get(field), actual.get(field)
    if actual.get("automountServiceAccountToken") is not False:
        yield "spec.automountServiceAccountToken", False, actual.get("automountServiceAccountToken")
    for field in ("containers", "initContainers", "ephemeralContainers"):
        there = {container["name"]: container for container in actual.get(field) or ()}
        for container in wanted.get(field) or ():
            yield from _container(
                f"spec.{field}[{container['name']}]", container, there.get(container["name"])
            )
    volumes = {volume["name"] for volume in actual.get("volumes") or ()}
    for volume in wanted.get("volumes") or ():
        if volume["name"] not in volumes:
            yield f"spec.volumes[{volume['name']}]", volume, None
    tolerations = actual.get("tolerations") or ()
    for toleration in wanted.get("tolerations") or ():
        if toleration not in tolerations:
            yield "spec.tolerations", toleration, None


def _container(where: str, wanted: Json, actual: Json | None) -> Iterator[Difference]:
    if actual is None:
        yield where, wanted, None
        return
    for field in (wanted.keys() | actual.keys()) - _OTHERWISE_IN_CONTAINER:
        if wanted.get(field) != actual.get(field):
            yield f"{where}.{field}", wanted.get(field), actual.get(field)
    environment = {entry["name"]: entry for entry in actual.get("env") or ()}
    for entry in wanted.get("env") or ():
        there = environment.get(entry["name"])
        if there is None or ("valueFrom" not in entry and there.get("value") != entry.get("value")):
            yield f"{where}.env[{entry['name']}]", entry.get("value"), (there or {}).get("value")
    if "KUBERNETES_SERVICE_HOST" not in environment and "ephemeral" not in where:
        yield f"{where}.env[KUBERNETES_SERVICE_HOST]", "the tenant's API", None
    expected, present = wanted.get("resources") or {}, actual.get("resources") or {}
    for part in ("requests", "limits"):
        have = amounts(present.get(part))
        for resource, quantity in amounts(expected.get(part)).items():
            if have.get(resource) != quantity:
                text = (present.get(part) or {}).get(resource)
                yield f"{where}.resources.{part}.{resource}", expected[part][resource], text


def _status(pod: Json, copy: Json) -> Iterator[Difference]:
    status, actual = pod.get("status") or {}, copy.get("status") or {}
    there, here = place(copy)[0], place(pod)[0]
    for field in _SAME_IN_STATUS:
        expected = _as_tenant(actual.get(field), there, here)
        # An absent field equals an empty one.
        if status.get(field) != expected and not (status.get(field) in _EMPTY and expected in _EMPTY):
            yield f"status.{field}", expected, status.get(field)
    gates = {gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()}
    wanted = {
        c["type"]: _content(c, there, here) for c in actual.get("conditions") or () if c["type"] not in gates
    }
    present = {
        c["type"]: _content(c, here, here) for c in status.get("conditions") or () if c["type"] not in gates
    }
    for kind in sorted(wanted.keys() | present.keys()):
        if wanted.get(kind) != present.get(kind):
            yield f"status.conditions[{kind}]", wanted.get(kind), present.get(kind)


def _content(condition: Mapping[str, Any], there: str, here: str) -> Json:
    fields = {field: condition.get(field) or "" for field in ("status", "reason", "message")}
    # The tenant's API server records the time of the binding itself.
    if condition["type"] != "PodScheduled":
        fields["lastTransitionTime"] = condition.get("lastTransitionTime") or ""
    return {field: _as_tenant(text, there, here) for field, text in fields.items()}


def _as_tenant(value: Any, there: str, here: str) -> Any:
    """Return a value in which the tenant's namespace replaces the super namespace."""
    if isinstance(value, str):
        return value.replace(there, here)
    if isinstance(value, list):
        return [_as_tenant(element, there, here) for element in value]
    if isinstance(value, dict):
        return {field: _as_tenant(element, there, here) for field, element in value.items()}
    return value


# --- From the super cluster to the tenant --------------------------------------------------------------------


def pod_copies(world: World) -> Iterator[Finding]:
    """Every Pod in a super namespace is the copy of a Pod of that tenant with that UID and that label."""
    for tenant, _, super_id, _, line in world.placed():
        there = super_namespace(tenant.key, line.namespace)
        for copy in world.supers[super_id].within("pods", there):
            name = place(copy)[1]
            pod = tenant.cluster.get("pods", line.namespace, name)
            field, expected, actual = "", None, annotations(copy).get(keys.UID)
            if pod is not None and uid(pod) == actual:
                if labels(pod).get(keys.SUPER_CLUSTER) == super_id:
                    continue
                field = f"metadata.labels[{keys.SUPER_CLUSTER}]"
                actual, expected = labels(pod).get(keys.SUPER_CLUSTER), super_id
            yield Finding("foreign", tenant.key, super_id, "pods", there, name, field, expected, actual)
