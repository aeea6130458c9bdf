"""Priority and default tolerations of new Pods.

Source: Kubernetes' `plugin/pkg/admission/{priority,defaulttolerationseconds}`.
"""

from collections.abc import Mapping
from typing import Any

from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.plugin import Lookup, refusal, spec_of
from vcsync.apiserver.request.scope import Admission

TOLERATION_SECONDS = 300


async def priority(admission: Admission, lookup: Lookup) -> None:
    """Set the priority of a Pod from its PriorityClass. Updates keep it.

    Raises:
        StatusError: 403, the class does not exist, or the Pod contradicts it.
    """
    resource, old = admission.scope.kind.resource, admission.old
    if (resource.group, resource.plural) != ("", "pods") or admission.scope.subresource:
        return
    if admission.operation == "CREATE":
        await _resolve(admission, lookup, spec_of(admission))
    elif admission.operation == "UPDATE" and old is not None:
        spec = spec_of(admission)
        for field in ("priority", "preemptionPolicy"):
            if spec.get(field) is None and field in (old.get("spec") or {}):
                spec[field] = old["spec"][field]


async def one_default_priority(admission: Admission, lookup: Lookup) -> None:
    """Refuse a second default PriorityClass.

    Raises:
        StatusError: 403, another class is the default.
    """
    resource = admission.scope.kind.resource
    if (resource.group, resource.plural) != ("scheduling.k8s.io", "priorityclasses"):
        return
    if not (admission.new or {}).get("globalDefault"):
        return
    there = await _default_class(admission, lookup)
    if there is not None and (admission.operation == "CREATE" or there["metadata"]["name"] != admission.name):
        name = there["metadata"]["name"]
        raise refusal(
            admission, f"PriorityClass {name} is already marked as default. Only one default can exist"
        )


async def _resolve(admission: Admission, lookup: Lookup, spec: Object) -> None:
    name = spec.get("priorityClassName") or ""
    if name:
        found = await lookup.get(admission.scope.tenant, "scheduling.k8s.io", "priorityclasses", name)
        if found is None:
            raise refusal(admission, f"no PriorityClass with name {name} was found")
    else:
        found = await _default_class(admission, lookup)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    value = (found or {}).get("value", 0)
    policy = (found or {}).get("preemptionPolicy", "PreemptLowerPriority")
    computed = "from the given PriorityClass name"
    given = spec.get("priority")
    if given is not None and given != value:
        raise refusal(
            admission,
            f"the integer value of priority ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {value} {computed}",
        )
    given = spec.get("preemptionPolicy")
    if given is not None and given != policy:
        raise refusal(
            admission,
            f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} {computed}",
        )
    spec["priority"], spec["preemptionPolicy"] = value, policy


async def _default_class(admission: Admission, lookup: Lookup) -> Object | None:
    """Return the default class. If there are several, the one with the smallest value."""
    classes = await lookup.all(admission.scope.tenant, "scheduling.k8s.io", "priorityclasses")
    return min((each for each in classes if each.get("globalDefault")), key=_value, default=None)


def _value(found: Object) -> int:
    return int(found.get("value", 0))


async def default_tolerations(admission: Admission, lookup: Lookup) -> None:
    """Add tolerations for five minutes on a node that is not ready or unreachable, unless the Pod has its own."""
    del lookup
    resource = admission.scope.kind.resource
    if (resource.group, resource.plural) != ("", "pods") or admission.scope.subresource:
        return
    if admission.operation not in ("CREATE", "UPDATE"):
        return
    spec = spec_of(admission)
    given = spec.get("tolerations") or []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(each, key) for each in given):
            given = [
                *given,
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": TOLERATION_SECONDS,
                },
            ]
    spec["tolerations"] = given


def _tolerates(toleration: Mapping[str, Any], key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")
