"""Reads a Pod's needs from its spec: resources, and the virtual nodes that it requires or excludes. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.api.names import SUPER_CLUSTER, SUPER_CLUSTER_ID
from vcsync.api.without_effect import DEFAULT_SCHEDULER
from vcsync.objects.quantity import milli
from vcsync.objects.text_cache import cache_short_texts
from vcsync.scheduling.resources import Resources, add
from vcsync.scheduling.slices import PODS

MARKED = ("labels", "annotations")
"""Parts of a Pod's metadata that name its super cluster."""
_HOST_NAME = "kubernetes.io/hostname"
_NODE_NAME = "metadata.name"
_ALWAYS = "Always"
TO_BE_MADE = "(to be made from a template)"
"""Stands for the name of a ResourceClaim that the tenant's controller has not made yet. No claim can have it."""


@cache_short_texts(4096, 64)
def _milli(text: str) -> int:
    return milli(text)


class _Resources(Struct, gc=False):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class _Container(Struct, gc=False, rename="camel"):
    resources: _Resources | None = None
    restart_policy: str = ""


class _Requirement(Struct, gc=False):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class _Term(Struct, gc=False, rename="camel"):
    match_expressions: tuple[_Requirement, ...] | None = None
    match_fields: tuple[_Requirement, ...] | None = None


class _NodeSelector(Struct, gc=False, rename="camel"):
    node_selector_terms: tuple[_Term, ...] | None = None


class _NodeAffinity(Struct, gc=False, rename="camel"):
    required_during_scheduling_ignored_during_execution: _NodeSelector | None = None


class _Affinity(Struct, gc=False, rename="camel"):
    node_affinity: _NodeAffinity | None = None


class _ClaimSource(Struct, gc=False, rename="camel"):
    claim_name: str = ""


class _Ephemeral(Struct, gc=False):
    """An ephemeral volume. Its template does not matter here."""


class _Volume(Struct, gc=False, rename="camel"):
    name: str = ""
    persistent_volume_claim: _ClaimSource | None = None
    ephemeral: _Ephemeral | None = None


class _DeviceClaim(Struct, gc=False, rename="camel"):
    name: str = ""
    resource_claim_name: str | None = None


class _MadeClaim(Struct, gc=False, rename="camel"):
    name: str = ""
    resource_claim_name: str | None = None


class _Status(Struct, gc=False, rename="camel"):
    resource_claim_statuses: tuple[_MadeClaim, ...] | None = None


class _Spec(Struct, gc=False, rename="camel"):
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    overhead: dict[str, str | int | float] | None = None
    resources: _Resources | None = None
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: _Affinity | None = None
    scheduling_gates: tuple[msgspec.Raw, ...] | None = None
    volumes: tuple[_Volume, ...] | None = None
    runtime_class_name: str | None = None
    resource_claims: tuple[_DeviceClaim, ...] | None = None


class PodNeeds(Struct, frozen=True, gc=False, array_like=True):
    """The parts of a Pod's spec that scheduling needs. It is small, since there is one for each Pod.

    Attributes:
        requests: requested amounts in thousandths, including one Pod.
        node: the node it is bound to; empty if it is not bound.
        gated: whether it has scheduling gates.
        supers: ids of the super clusters whose virtual nodes it requires; None if it requires none.
        avoided: if `supers` is None, ids of super clusters that it excludes.
        claims: names of the PersistentVolumeClaims that it uses.
        runtime_class: name of its RuntimeClass; empty if it has none.
        devices: names of the ResourceClaims that it uses; `TO_BE_MADE` for one that is still to be made from a template.
    """

    requests: Resources = {}
    node: str = ""
    gated: bool = False
    supers: tuple[str, ...] | None = None
    avoided: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    runtime_class: str = ""
    devices: tuple[str, ...] = ()

    def accepts(self, super_id: str) -> bool:
        """Return whether the Pod's spec permits a super cluster."""
        return super_id in self.supers if self.supers is not None else super_id not in self.avoided


_decode = msgspec.json.Decoder(_Spec).decode
_decode_status = msgspec.json.Decoder(_Status).decode


def pod_needs(spec: bytes, name: str = "", status: bytes = b"") -> PodNeeds:
    """Return the needs of a Pod.

    Args:
        spec: its spec.
        name: its name, after which the claims of its ephemeral volumes are named.
        status: its status, which names the ResourceClaims that were made from templates.

    Raises:
        msgspec.ValidationError: it is not a Pod spec. API servers do not accept such Pods.
        InvalidQuantity: an amount is invalid.
    """
    pod = _decode(spec or b"{}")
    choice = _supers(pod)
    ids = tuple(sorted(choice.ids))
    supers, avoided = (None, ids) if choice.others else (ids, ())
    return PodNeeds(
        {**_requests(pod), PODS: 1000},
        pod.node_name,
        bool(pod.scheduling_gates),
        supers,
        avoided,
        _claims(pod, name),
        pod.runtime_class_name or "",
        _devices(pod, status) if pod.resource_claims else (),
    )


def is_plain(pod: Mapping[str, Any]) -> bool:
    """Return whether the scheduler decides on a new Pod by its requests and node selectors alone.

    The scheduler judges a super cluster that the creator named, and a Pod that is bound or may not be scheduled yet, when
    it sees them. It judges a Pod that names another scheduler then, too.

    Args:
        pod: its metadata and spec.
    """
    spec = pod.get("spec") or {}
    named = any(SUPER_CLUSTER in (pod["metadata"].get(part) or {}) for part in MARKED)
    own = (spec.get("schedulerName") or DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER
    return bool(spec) and own and not (named or spec.get("nodeName") or spec.get("schedulingGates"))


def _devices(pod: _Spec, status: bytes) -> tuple[str, ...]:
    statuses = _decode_status(status).resource_claim_statuses if status else None
    made = {each.name: each.resource_claim_name or "" for each in statuses or ()}
    found = (
        each.resource_claim_name or made.get(each.name, TO_BE_MADE) for each in pod.resource_claims or ()
    )
    return tuple(dict.fromkeys(each for each in found if each))


def _claims(pod: _Spec, name: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for volume in pod.volumes or ():
        if volume.persistent_volume_claim is not None:
            found[volume.persistent_volume_claim.claim_name] = None
        elif volume.ephemeral is not None:
            found[f"{name}-{volume.name}"] = None
    return tuple(found)


def pod_requests(spec: bytes) -> Resources:
    """Return the effective requests of a Pod, as kube-scheduler computes them.

    The requests of containers and sidecars (restartable init containers) are added. An init container and the sidecars
    started before it count instead if they request more. Requests at Pod level replace the sum for the resources that
    they name. A limit without a request counts as a request. Overhead is added.

    Source: Kubernetes documentation "Init Containers" and "Resource sharing within containers"; KEP-753, KEP-2837.

    Raises:
        msgspec.ValidationError, InvalidQuantity: as `pod_needs`.
    """
    return _requests(_decode(spec or b"{}"))


def _requests(pod: _Spec) -> Resources:
    running: Resources = {}
    for container in pod.containers or ():
        running = _sum(running, _of(container.resources))
    sidecars: Resources = {}
    starting: Resources = {}
    for container in pod.init_containers or ():
        if container.restart_policy == _ALWAYS:
            sidecars = add(sidecars, _of(container.resources))
            starting = _most(starting, sidecars)
        else:
            starting = _most(starting, add(sidecars, _of(container.resources)))
    total = _most(_sum(running, sidecars), starting) if starting else running
    if pod.resources is not None:
        explicit = _amounts(pod.resources.requests)
        total = {**_amounts(pod.resources.limits), **total, **explicit}
    if pod.overhead:
        total = add(total, _amounts(pod.overhead))
    return total


def _of(resources: _Resources | None) -> Resources:
    if resources is None:
        return {}
    if not resources.limits:
        return _amounts(resources.requests)
    return {**_amounts(resources.limits), **_amounts(resources.requests)}


def _amounts(quantities: dict[str, str | int | float] | None) -> Resources:
    return {name: _milli(str(text)) for name, text in quantities.items()} if quantities else {}


def _sum(left: Resources, right: Resources) -> Resources:
    if not left:
        return right
    return add(left, right) if right else left


def _most(left: Resources, right: Resources) -> Resources:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


def super_of_node(node: str) -> str:
    """Return the id of the super cluster in a virtual node's name `<node>.<id>`; empty if the name has another form."""
    host, dot, super_id = node.rpartition(".")
    return super_id if host and dot else ""


class _Choice(Struct, frozen=True, gc=False):
    """A set of super clusters: those in `ids`, or all others if `others` is set."""

    ids: frozenset[str] = frozenset()
    others: bool = True

    def __and__(self, also: "_Choice") -> "_Choice":
        if self.others and also.others:
            return _Choice(self.ids | also.ids)
        if self.others or also.others:
            these, without = (also, self) if self.others else (self, also)
            return _Choice(these.ids - without.ids, others=False)
        return _Choice(self.ids & also.ids, others=False)

    def __invert__(self) -> "_Choice":
        return _Choice(self.ids, not self.others)

    def __or__(self, instead: "_Choice") -> "_Choice":
        return ~(~self & ~instead)


_ANY = _Choice()
_NONE = ~_ANY


def _supers(pod: _Spec) -> _Choice:
    """Return the super clusters that the node selector and the required node affinity permit."""
    allowed = _ANY
    for key, value in (pod.node_selector or {}).items():
        allowed &= _named(key, (value,))
    if pod.affinity is not None and pod.affinity.node_affinity is not None:
        required = pod.affinity.node_affinity.required_during_scheduling_ignored_during_execution
        if required is not None and required.node_selector_terms:
            allowed &= _any_of(required.node_selector_terms)
    return allowed


def _any_of(terms: Iterable[_Term]) -> _Choice:
    """Return the super clusters that at least one term permits, since terms are alternatives."""
    union = _NONE
    for term in terms:
        union |= _all_of((*(term.match_expressions or ()), *(term.match_fields or ())))
    return union


def _all_of(requirements: Iterable[_Requirement]) -> _Choice:
    left = _ANY
    for requirement in requirements:
        if requirement.operator == "In":
            left &= _named(requirement.key, requirement.values or ())
        elif requirement.key == SUPER_CLUSTER_ID and requirement.operator == "NotIn":
            left &= _Choice(frozenset(requirement.values or ()))
        elif requirement.key == SUPER_CLUSTER_ID and requirement.operator == "DoesNotExist":
            left = _NONE
    return left


def _named(key: str, values: Iterable[str]) -> _Choice:
    if key in (_HOST_NAME, _NODE_NAME):
        return _Choice(
            frozenset(super_id for super_id in map(super_of_node, values) if super_id), others=False
        )
    return _Choice(frozenset(values), others=False) if key == SUPER_CLUSTER_ID else _ANY
