"""What the DaemonSet controller reads of DaemonSets and nodes, and the Pods that it makes of them. Pure.

Behaviour: Kubernetes' `pkg/controller/daemon/util`, and `NodeShouldRunDaemonPod` of `pkg/controller/daemon`.
"""

from typing import Any

from msgspec import Struct

from vcsync.controllers import owning
from vcsync.controllers.deployment_objects import amount
from vcsync.controllers.mirror import namespace_of
from vcsync.controllers.plan import Create
from vcsync.kube.envelope import Envelope, decode, untyped
from vcsync.kube.node_selectors import NODE_NAME_FIELD, Affinity, selects
from vcsync.kube.resources import DAEMON_SETS, PODS
from vcsync.kube.selectors import LabelSelector, Selector, compile_selector
from vcsync.kube.taints import NO_EXECUTE, NO_SCHEDULE, Toleration, borne, of_node

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
"""Taints that daemons always bear."""
_NETWORK = ("network-unavailable", NO_SCHEDULE)
"""Those in the node's own network bear this one, too."""


class RollingUpdate(Struct, frozen=True, rename="camel"):
    """How many Pods an update may take away at once, or add."""

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
        wants: what the template says of nodes.
        tolerations: of its Pods, as they are written.
        bears: the same.
    """

    envelope: Envelope
    spec: DaemonSetSpec
    status: DaemonSetStatus
    template: dict[str, Any]
    selector: Selector
    wants: _PodSpec
    tolerations: list[dict[str, Any]]
    bears: tuple[Toleration, ...]

    def surge(self, wanted: int) -> int:
        """How many Pods an update may add, of so many."""
        return self._share("max_surge", wanted)

    def unavailable(self, wanted: int) -> int:
        """How many Pods an update may take away, of so many."""
        return self._share("max_unavailable", wanted)

    def _share(self, name: str, wanted: int) -> int:
        rolling = self.spec.update_strategy.rolling_update
        value = (
            getattr(rolling, name) if rolling and self.spec.update_strategy.type == "RollingUpdate" else None
        )
        return 0 if value is None else amount(value, wanted, up=True)

    def is_updated(self, pod: Envelope, revision: str) -> bool:
        """Whether a Pod is of the present template."""
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
    """Tell whether a daemon is to run on a node, and whether one that does may go on."""
    wants = set_.wants
    if wants.node_name not in ("", node.name):
        return False, False
    terms = wants.affinity.terms if wants.affinity else None
    if not selects(wants.node_selector or {}, terms, node.name, node.labels):
        return False, False
    taints = of_node(node, NO_EXECUTE, NO_SCHEDULE)
    if not taints:
        return True, True
    if borne(taints, set_.bears):
        return True, True
    return False, borne([each for each in taints if each.effect == NO_EXECUTE], set_.bears)


def node_of(pod: Envelope) -> str:
    """Return the node that a daemon is on, or is meant for; empty: none."""
    spec = decode(pod.spec, _PodSpec)
    if spec.node_name:
        return spec.node_name
    for term in (spec.affinity.terms if spec.affinity else None) or ():
        for each in term.match_fields or ():
            if each.key == NODE_NAME_FIELD and each.operator == "In":
                return each.values[0] if each.values and len(each.values) == 1 else ""
    return ""


def new_pod(set_: DaemonSet, node: str, revision: str, suffix: str) -> Create:
    """Return what creates a daemon for a node. The scheduler binds it, as its node affinity says."""
    told = set_.template.get("metadata") or {}
    prefix = f"{set_.envelope.name}-"
    labels = {**(told.get("labels") or {}), REVISION_LABEL: revision}
    if (generation := _generation(set_.envelope)) is not None:
        labels[GENERATION_LABEL] = generation
    metadata: dict[str, Any] = {each: told[each] for each in ("annotations", "finalizers") if told.get(each)}
    metadata |= {
        "generateName": prefix,
        "name": f"{prefix[:58]}{suffix}",
        "labels": labels,
        "ownerReferences": [owning.reference(DAEMON_SETS, set_.envelope)],
    }
    spec = dict(set_.template.get("spec") or {})
    spec |= {"affinity": _on(spec.get("affinity"), node), "tolerations": set_.tolerations}
    return Create(PODS, namespace_of(set_.envelope), {"metadata": metadata, "spec": spec})


def _on(affinity: dict[str, Any] | None, node: str) -> dict[str, Any]:
    """An affinity that wants this node and no other; what it says besides stays."""
    field = {"key": NODE_NAME_FIELD, "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    nodes = (affinity or {}).get("nodeAffinity") or {}
    return {
        **(affinity or {}),
        "nodeAffinity": {**nodes, "requiredDuringSchedulingIgnoredDuringExecution": terms},
    }


def _tolerations(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """A template's tolerations, and those that daemons always have; one for the same taint is replaced."""
    added = [*_BORNE, *([_NETWORK] if spec.get("hostNetwork") else [])]
    found = list(spec.get("tolerations") or ())
    for key, effect in added:
        ours = {"key": _PREFIX + key, "operator": "Exists", "effect": effect}
        same = [_identity(each) == _identity(ours) for each in found]
        found = [ours if is_same else each for each, is_same in zip(found, same, strict=True)]
        found += [] if any(same) else [ours]
    return found


def _identity(toleration: dict[str, Any]) -> tuple[str, str, str, str]:
    """What makes two tolerations the same one: everything but for how long."""
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
