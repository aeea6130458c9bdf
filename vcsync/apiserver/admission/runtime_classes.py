"""RuntimeClasses: a Pod's overhead, node selector and tolerations.

Source: Kubernetes' `plugin/pkg/admission/runtimeclass`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.plugin import Lookup, creates, refusal, spec_of
from vcsync.apiserver.request.scope import Admission
from vcsync.objects.quantity import milli

OTHER_OVERHEAD = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
MOST_MERGED = 200
"""Most tolerations that are merged: each is compared with each other, which takes minutes for thousands."""


async def runtime_class(admission: Admission, lookup: Lookup) -> None:
    """Add the overhead, node selector and tolerations of the RuntimeClass to a Pod.

    Raises:
        StatusError: 403, the class does not exist, or the Pod contradicts it.
    """
    if not creates(admission, "pods"):
        return
    spec = spec_of(admission)
    found = await _class(admission, lookup, spec)
    overhead = _overhead(found)
    if overhead is not None:
        if spec.get("overhead") and _amounts(spec["overhead"]) != _amounts(overhead):
            raise refusal(admission, OTHER_OVERHEAD)
        spec["overhead"] = overhead
    _schedule(admission, spec, (found or {}).get("scheduling") or {})


async def overhead(admission: Admission, lookup: Lookup) -> None:
    """Refuse a Pod whose overhead differs from that of its RuntimeClass.

    Raises:
        StatusError: 403, the overhead differs, or the class has none.
    """
    if not creates(admission, "pods"):
        return
    spec = spec_of(admission)
    wanted, given = _overhead(await _class(admission, lookup, spec)), spec.get("overhead")
    if wanted is None and given is not None:
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise refusal(admission, why)
    if wanted is not None and _amounts(given or {}) != _amounts(wanted):
        raise refusal(admission, OTHER_OVERHEAD)


async def _class(admission: Admission, lookup: Lookup, spec: Object) -> Object | None:
    name = spec.get("runtimeClassName")
    if name is None:
        return None
    if not name:
        raise StatusError(500, "", "resource name may not be empty")
    found = await lookup.get(admission.scope.tenant, "node.k8s.io", "runtimeclasses", name)
    if found is None:
        raise refusal(admission, f'pod rejected: RuntimeClass "{name}" not found')
    return found


def _overhead(found: Object | None) -> Mapping[str, Any] | None:
    given = (found or {}).get("overhead")
    return None if given is None else given.get("podFixed") or {}


def _amounts(given: Mapping[str, Any]) -> dict[str, int]:
    return {name: milli(str(each)) for name, each in given.items()}


def _schedule(admission: Admission, spec: Object, scheduling: Object) -> None:
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            raise refusal(
                admission,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}",
            )
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    if scheduling:
        found = merged([*(spec.get("tolerations") or ()), *(scheduling.get("tolerations") or ())])
        if found:
            spec["tolerations"] = found


def merged(tolerations: Sequence[Object]) -> list[Object]:
    """Drop tolerations that others cover (`pkg/util/tolerations`), unless there are more than MOST_MERGED."""
    if len(tolerations) > MOST_MERGED:
        return list(tolerations)
    kept: list[Object] = []
    for at, each in enumerate(tolerations):
        later = (other for other in tolerations[at + 1 :] if other != each)
        if not any(_covers(other, each) for other in (*kept, *later)):
            kept.append(each)
    return kept


def _covers(wide: Object, narrow: Object) -> bool:
    if wide == narrow:
        return True
    operator = wide.get("operator") or "Equal"
    if narrow.get("key", "") != wide.get("key", "") and (wide.get("key") or operator != "Exists"):
        return False
    if narrow.get("effect", "") != wide.get("effect", "") and wide.get("effect"):
        return False
    if wide.get("effect") == "NoExecute" and wide.get("tolerationSeconds") is not None:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    if operator == "Equal":
        return narrow.get("operator") == "Equal" and narrow.get("value", "") == wide.get("value", "")
    return bool(operator == "Exists")
