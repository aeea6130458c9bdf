"""Pods that do not bear the NoExecute taints of their node, or not for longer: deleted.

Behaviour: Kubernetes' `pkg/controller/tainteviction`. How long a Pod has borne a taint counts from when this process first
saw both, as there: a restart begins anew.
"""

from collections.abc import Iterable
from datetime import datetime

from vcsync.controllers import pods
from vcsync.controllers.mirror import Key, key_of, namespace_of
from vcsync.controllers.plan import NOTHING, Action, Controller, Delete, Emit, Look, Patch, Plan, Watch
from vcsync.controllers.waking import standing
from vcsync.kube.cache import Change
from vcsync.kube.envelope import Envelope
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import NAMESPACES, NODES, PODS
from vcsync.kube.taints import NO_EXECUTE, of_node, of_pod, patience

NAME = "taint-eviction-controller"
REASON = "TaintManagerEviction"
_CONDITION = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint",
}


class TaintEviction:
    """Remembers since when Pods have borne a taint that they bear for some time only."""

    def __init__(self) -> None:
        self._since: dict[Key, tuple[str, datetime]] = {}

    def plan(self, look: Look, key: Key) -> Plan:
        """Delete a Pod that does not bear its node's taints, or has borne them for long enough."""
        pod = look.of[PODS].get(*key)
        if pod is None or pod.deleting:
            self._since.pop(key, None)
            return NOTHING
        name = pods.spec(pod).node_name
        node = look.of[NODES].get(key.tenant, "", name) if name else None
        if node is None:
            # What becomes of the Pods of a node that is gone is decided by others.
            return NOTHING
        seconds = patience(of_node(node, NO_EXECUTE), of_pod(pod))
        if seconds is None:
            return self._calm(key, pod)
        known = self._since.get(key)
        since = known[1] if known is not None and known[0] == pod.uid else look.now
        left = seconds - (look.now - since).total_seconds()
        if left > 0:
            self._since[key] = pod.uid, since
            return Plan(again=left)
        return _deletion(look, key, pod)

    def _calm(self, key: Key, pod: Envelope) -> Plan:
        """Tell that a Pod stays that was to be deleted later."""
        known = self._since.pop(key, None)
        if known is None or known[0] != pod.uid:
            return NOTHING
        message = f"Cancelling deletion of Pod {key.namespace}/{key.name}"
        return Plan([[Emit(_about(key), "Normal", REASON, message)]])


def _deletion(look: Look, key: Key, pod: Envelope) -> Plan:
    actions: list[Action] = [
        Emit(_about(key), "Normal", REASON, f"Marking for deletion Pod {key.namespace}/{key.name}")
    ]
    there = pods.condition(pods.status(pod).conditions, _CONDITION["type"])
    same = there is not None and all(
        getattr(there, part) == _CONDITION[part] for part in ("status", "reason", "message")
    )
    if not same:
        kept = there is not None and there.status == "True"
        at = there.last_transition_time if there is not None and kept else pods.told(look.now)
        condition = {**_CONDITION, "lastTransitionTime": at, "observedGeneration": pod.generation or None}
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        actions.append(Patch(PODS, key.namespace, key.name, patch, "strategic", "status"))
    actions.append(Delete(PODS, key.namespace, key.name, pod.uid))
    return Plan([[each] for each in actions])


def _about(key: Key) -> ObjectRef:
    return ObjectRef("v1", "Pod", key.name, key.namespace)


def _pod(change: Change, look: Look) -> Iterable[Key]:
    """The Pod itself, if it is on a tainted node; and when it goes or is bound anew."""
    pod = standing(change)
    if change.new is None:
        return [key_of(pod)]
    if change.old is not None and change.old.spec == pod.spec and change.old.deleting == pod.deleting:
        return ()
    name = pods.spec(pod).node_name
    node = look.of[NODES].get(pod.tenant, "", name) if name else None
    return [key_of(pod)] if node is not None and of_node(node, NO_EXECUTE) else ()


def _node(change: Change, look: Look) -> Iterable[Key]:
    """All Pods of a node whose NoExecute taints change."""
    node = change.new
    if node is None:
        return
    before = () if change.old is None else of_node(change.old, NO_EXECUTE)
    if of_node(node, NO_EXECUTE) == before:
        return
    for namespace in look.of[NAMESPACES].within(node.tenant):
        for pod in look.of[PODS].within(node.tenant, namespace.name):
            if pods.spec(pod).node_name == node.name:
                yield Key(pod.tenant, namespace_of(pod), pod.name)


def taint_eviction() -> Controller:
    """Return the controller."""
    return Controller(
        NAME, (Watch(PODS, _pod), Watch(NODES, _node)), TaintEviction().plan, reads=(NAMESPACES,)
    )
