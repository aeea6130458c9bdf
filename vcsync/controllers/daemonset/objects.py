"""DaemonSets and nodes as their controller reads them, and the Pods that it creates. Pure.

Behaviour: Kubernetes' `pkg/controller/daemon/util`, and `NodeShouldRunDaemonPod` of `pkg/controller/daemon`.
"""

from typing import Any

from msgspec import Struct

from vcsync.controllers.deployment.objects import amount
from vcsync.controllers.framework import ownership
from vcsync.controllers.framework.mirror import namespace_of
from vcsync.controllers.framework.plan import Create
from vcsync.kube.resources import DAEMON_SETS, PODS
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.objects.node_selectors import NODE_NAME_FIELD, Affinity, selects
from vcsync.objects.selectors import LabelSelector, Selector, compile_selector
from vcsync.objects.taints import NO_EXECUTE, NO_SCHEDULE, Toleration, all_tolerated, of_node

REVISION_LABEL = "controller-revision-hash"
GENERATION_LABEL = "pod-template-generation"
GENERATION = "deprecated.daemonset.template.generation"
_PREFIX = "node.kubernetes.io/"
_BORNE = (
    ("not-ready", NO_EXECUTE),
    ("unreachable", NO_EXECUTE),
    ("disk-pressure", NO_SCHEDULE),
    ("memory-pressure", NO_SCHEDULE),
    ("pid-pressure", NO_SCHEDULE),
    ("unschedulable", NO_SCHEDULE),
)
"""Taints that daemons always tolerate."""
_NETWORK = ("network-unavailable", NO_SCHEDULE)
"""Taint that Pods in the host network tolerate as well."""


class RollingUpdate(Struct, frozen=True, rename="camel"):
    """The numbers of Pods that an update may make unavailable at a time, or add."""

    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class UpdateStrategy(Struct, frozen=True, rename="camel"):
    """`RollingUpdate` or `OnDelete`."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DaemonSetSpec(Struct, rename="camel"):
    """The parts of a DaemonSet's spec."""

    selector: LabelSelector = LabelSelector()
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


class DaemonSetStatus(Struct, rename="camel"):
    """The status that the controller writes."""

    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None


class _PodSpec(Struct, frozen=True, rename="camel"):
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None


class _Template(Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


class _WithTemplate(Struct):
    template: _Template = _Template()


class DaemonSet(Struct, frozen=True):
    """One DaemonSet.

    Attributes:
        template: its Pod template.
        wants: the template's constraints on nodes.
        tolerations: tolerations of its Pods, in wire form.
        bears: the same, decoded.
    """

    envelope: Envelope
    spec: DaemonSetSpec
    status: DaemonSetStatus
    template: dict[str, Any]
    selector: Selector
    wants: _PodSpec
    tolerations: list[dict[str, Any]]
    decoded_tolerations: tuple[Toleration, ...]

    def surge(self, wanted: int) -> int:
        """Return the number of Pods that an update of this many Pods may add."""
        return self._share("max_surge", wanted)

    def unavailable(self, wanted: int) -> int:
        """Return the number of Pods that an update of this many Pods may make unavailable."""
        return self._share("max_unavailable", wanted)

    def _share(self, name: str, wanted: int) -> int:
        rolling = self.spec.update_strategy.rolling_update
        value = (
            getattr(rolling, name) if rolling and self.spec.update_strategy.type == "RollingUpdate" else None
        )
        return 0 if value is None else amount(value, wanted, up=True)

    def is_updated(self, pod: Envelope, revision: str) -> bool:
        """Return whether a Pod has the current template."""
        generation = _generation(self.envelope)
        by_generation = generation is not None and pod.labels.get(GENERATION_LABEL) == generation
        return pod.labels.get(REVISION_LABEL) == revision or by_generation


def read_daemon_set(envelope: Envelope) -> DaemonSet:
    """Read a DaemonSet."""
    spec = decode(envelope.spec, DaemonSetSpec)
    template = untyped(envelope.spec).get("template") or {}
    tolerations = _tolerations(template.get("spec") or {})
    return DaemonSet(
        envelope,
        spec,
        decode(envelope.status, DaemonSetStatus),
        template,
        compile_selector(spec.selector),
        decode(envelope.spec, _WithTemplate).template.spec,
        tolerations,
        tuple(Toleration(*_identity(each)) for each in tolerations),
    )


def should_run(set_: DaemonSet, node: Envelope) -> tuple[bool, bool]:
    """Return whether a daemon should run on a node, and whether a running one may continue."""
    wants = set_.wants
    if wants.node_name not in ("", node.name):
        return False, False
    terms = wants.affinity.terms if wants.affinity else None
    if not selects(wants.node_selector or {}, terms, node.name, node.labels):
        return False, False
    taints = of_node(node, NO_EXECUTE, NO_SCHEDULE)
    if not taints:
        return True, True
    if all_tolerated(taints, set_.decoded_tolerations):
        return True, True
    return False, all_tolerated(
        [each for each in taints if each.effect == NO_EXECUTE], set_.decoded_tolerations
    )


def node_of(pod: Envelope) -> str:
    """Return the node that a daemon runs on or is intended for; empty: none."""
    spec = decode(pod.spec, _PodSpec)
    if spec.node_name:
        return spec.node_name
    for term in (spec.affinity.terms if spec.affinity else None) or ():
        for each in term.match_fields or ():
            if each.key == NODE_NAME_FIELD and each.operator == "In":
                return each.values[0] if each.values and len(each.values) == 1 else ""
    return ""


def new_pod(set_: DaemonSet, node: str, revision: str, suffix: str) -> Create:
    """Return the creation of a daemon for a node. The scheduler binds it according to its node affinity."""
    template = set_.template.get("metadata") or {}
    prefix = f"{set_.envelope.name}-"
    labels = {**(template.get("labels") or {}), REVISION_LABEL: revision}
    if (generation := _generation(set_.envelope)) is not None:
        labels[GENERATION_LABEL] = generation
    metadata: dict[str, Any] = {
        each: template[each] for each in ("annotations", "finalizers") if template.get(each)
    }
    metadata |= {
        "generateName": prefix,
        "name": f"{prefix[:58]}{suffix}",
        "labels": labels,
        "ownerReferences": [ownership.reference(DAEMON_SETS, set_.envelope)],
    }
    spec = dict(set_.template.get("spec") or {})
    spec |= {"affinity": _on(spec.get("affinity"), node), "tolerations": set_.tolerations}
    return Create(PODS, namespace_of(set_.envelope), {"metadata": metadata, "spec": spec})


def _on(affinity: dict[str, Any] | None, node: str) -> dict[str, Any]:
    """Return an affinity that allows only this node; other terms stay."""
    field = {"key": NODE_NAME_FIELD, "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    nodes = (affinity or {}).get("nodeAffinity") or {}
    return {
        **(affinity or {}),
        "nodeAffinity": {**nodes, "requiredDuringSchedulingIgnoredDuringExecution": terms},
    }


def _tolerations(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a template's tolerations with those that daemons always have, which replace any for the same taint."""
    added = [*_BORNE, *([_NETWORK] if spec.get("hostNetwork") else [])]
    found = list(spec.get("tolerations") or ())
    for key, effect in added:
        ours = {"key": _PREFIX + key, "operator": "Exists", "effect": effect}
        same = [_identity(each) == _identity(ours) for each in found]
        found = [ours if is_same else each for each, is_same in zip(found, same, strict=True)]
        found += [] if any(same) else [ours]
    return found


def _identity(toleration: dict[str, Any]) -> tuple[str, str, str, str]:
    """Return the identity of a toleration: everything except its duration."""
    key, operator, value, effect = (
        toleration.get(part) or "" for part in ("key", "operator", "value", "effect")
    )
    return key, operator, value, effect


def _generation(set_: Envelope) -> str | None:
    text = set_.annotations.get(GENERATION, "")
    try:
        return str(int(text))
    except ValueError:
        return None
